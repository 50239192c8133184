#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/ptx_conformance.h"
#include "tests/support/ptx_warps.h"

/// What kernels of trials are put together of.
namespace lanescope::ptx_warps {

using Words = std::vector<std::string>;
using ptx_conformance::expand;
using ptx_conformance::split;

inline std::string number(int i) { return std::to_string(i); }

inline int bits_of(std::string_view type) {
  return type.ends_with("64") ? 64 : type == "f16" || type == "bf16" || type == "b16" ? 16 : 32;
}

/// Registers: %h, %r and %d have 16, 32 and 64 bits; %r0 is the thread's number in its block; %d0
/// and %d1 are where its words and its results lie, %d6 and %d7 those of all threads; %d2 is the
/// tensor map, %d3 the kernel's own memory. Of one thread %p0 is true.
inline Trial kernel(std::string name, std::string body, Words in, int out, int threads,
                    int blocks = 1) {
  Trial trial{std::move(name), "", std::move(in), out, threads, blocks};
  int words = 0;
  for (const std::string& type : trial.in) words += bits_of(type) == 64 ? 2 : 1;
  trial.text =
      ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry kernel(.param .u64 p0, "
      ".param .u64 p1, .param .u64 p2, .param .u64 p3)" +
      (blocks > 1 ? " .reqnctapercluster " + number(blocks) + ", 1, 1" : "") +
      " {\n.reg .pred %p<8>; .reg .b16 %h<64>; .reg .b32 %r<64>; .reg .b64 %d<64>;\n"
      "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, " +
      number(threads) +
      ", %r0; setp.eq.u32 %p0, %r0, 0;\nld.param.u64 %d6, [p0]; ld.param.u64 %d7, [p1]; "
      "ld.param.u64 %d2, [p2]; ld.param.u64 %d3, [p3];\n"
      "mul.wide.u32 %d0, %r1, " +
      number(4 * words) + "; add.s64 %d0, %d0, %d6; mul.wide.u32 %d1, %r1, " + number(4 * out) +
      "; add.s64 %d1, %d1, %d7;\n" + body + "ret;\n}\n";
  return trial;
}

inline std::string reg(int bits, int i) {
  return (bits == 16 ? "%h" : bits == 32 ? "%r" : "%d") + number(i);
}
inline std::string move(const std::string& op, int bits, const std::string& to,
                        const std::string& from) {
  return op + (bits == 16 ? ".b16 " : bits == 32 ? ".b32 " : ".b64 ") + to + ", " + from + ";\n";
}
inline std::string at(const std::string& base, int offset) {
  return "[" + base + "+" + number(offset) + "]";
}
/// Registers first, first + 1, ... in braces.
inline std::string list(int bits, int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", " : "{") + reg(bits, first + i);
  return text + "}";
}
/// The thread's words from word `from` on: of 16 bits each lies in a word of its own.
inline std::string load(int bits, int first, int count, int from) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += move("ld.global", bits, reg(bits, first + i),
                 at("%d0", 4 * from + i * std::max(bits, 32) / 8));
  }
  return text;
}
inline std::string leave(int bits, int first, int count, int from) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (bits == 16) text += "cvt.u32.u16 %r63, " + reg(16, first + i) + ";\n";
    text += move("st.global", std::max(bits, 32), at("%d1", 4 * from + i * std::max(bits, 32) / 8),
                 bits == 16 ? "%r63" : reg(bits, first + i));
  }
  return text;
}
inline Words several(const std::string& type, int count) {
  return Words(static_cast<std::size_t>(count), type);
}
inline void append(Words& all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// The trials, by what they try.
void add_atomics(std::vector<Trial>& all);
void add_bulk_reductions(std::vector<Trial>& all);
void add_exchanges(std::vector<Trial>& all);
void add_products(std::vector<Trial>& all);
void add_transfers(std::vector<Trial>& all);
void add_async_stores(std::vector<Trial>& all);
void add_tensor_maps(std::vector<Trial>& all);

}  // namespace lanescope::ptx_warps

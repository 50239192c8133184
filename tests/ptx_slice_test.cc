// What a value came through, followed back.

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "debug/ptx/slice.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Sliced {
  ptx::Slice slice;
  std::string text;
  bool has(const std::string& part) const { return text.find(part) != text.npos; }
};

/// Two warps; %rd0: an output of a word for each, %rd3: as many words of input, %rd1 and %rd4: the
/// lane's own of them, `box` an array in shared memory, %r9: the lane's word of it. The slice is of
/// the output's `word`-th.
Sliced sliced(const std::string& body, std::size_t word, std::uint32_t blocks = 1) {
  PtxKernel kernel(ptx_module(
      ".shared .align 16 .b8 box[4096]; .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b16 %h<8>;\n"
      ".reg .f32 %f<32>; .reg .b64 %rd<16>;\n"
      "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd3, [p1];\n"
      "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd0, %rd2; add.s64 %rd4, %rd3, %rd2;\n"
      "shl.b32 %r9, %r0, 2; mov.u32 %r8, box; add.u32 %r9, %r9, %r8;\n" +
          body + "ret;",
      2));
  std::vector<std::uint32_t> out(256), in(256);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = std::bit_cast<std::uint32_t>(1.5f);
  kernel.use(out);
  kernel.use(in);
  ptx::SliceWish wish{reinterpret_cast<const std::byte*>(&out[word]), 4};
  kernel.grid.threads[0] = 64;
  kernel.grid.blocks[0] = blocks;
  kernel.grid.slice = &wish;
  kernel.run({address(out.data()), address(in.data())});
  Sliced result{wish.found, ""};
  for (const std::string& note : ptx::slice_notes(wish.found)) result.text += note + "\n";
  return result;
}

const std::string load_word = "ld.global.f32 %f1, [%rd4];\n",
                  store_word = "st.global.f32 [%rd1], %f9;\n";

}  // namespace

TEST_CASE("ptx slice: what a value came through, and nothing else", "[ptx]") {
  const Sliced own = sliced(load_word +
                                "add.f32 %f2, %f1, %f1;\n"
                                "mul.f32 %f3, %f1, %f1;\n"
                                "sub.f32 %f9, %f2, 0f3F800000;\n" +
                                store_word,
                            40);
  INFO(own.text);
  REQUIRE(own.slice.lines.size() == 4);
  CHECK_THAT(own.slice.lines[0].line, ContainsSubstring("test.ptx:"));
  CHECK(own.slice.lines[0].instructions[0].opcode == "st.global.f32");
  CHECK(own.slice.lines[1].value == "2");
  CHECK(own.slice.lines[2].value == "3");
  CHECK(own.slice.lines[3].instructions[0].opcode == "ld.global.f32");
  for (const auto& line : own.slice.lines) {
    REQUIRE(line.lanes.size() == 1);
    CHECK(line.lanes[0].warp == 1);
    CHECK(line.lanes[0].lanes == 1u << 8);
  }
  CHECK_FALSE(own.has("mul.f32"));
  CHECK(own.has("from 4 bytes of a buffer of the test, between byte 160 and 163"));
  // What it was before it was overwritten says nothing.
  CHECK_FALSE(
      sliced(load_word + "add.f32 %f9, %f1, %f1; mov.f32 %f9, 0f00000000;\n" + store_word, 3)
          .has("ld.global"));
  // Nobody wrote it.
  CHECK(sliced(load, 3).slice.lines.empty());
}

TEST_CASE("ptx slice: a loop is a line, with how often it ran", "[ptx]") {
  const Sliced sum = sliced(
      "mov.f32 %f9, 0f00000000; mov.u32 %r1, 0;\n"
      "L: ld.global.f32 %f1, [%rd4];\nadd.f32 %f9, %f9, %f1;\nadd.u32 %r1, %r1, 1; setp.lt.u32 "
      "%p1, %r1, 5; @%p1 bra L;\n" +
          store_word,
      0);
  INFO(sum.text);
  CHECK(sum.has("add.f32 x 5; last 7.5; warp 0, lanes 0"));
  CHECK(sum.has("ld.global.f32 x 5"));
  CHECK_FALSE(sum.has("setp"));
}

TEST_CASE("ptx slice: through shared memory and other lanes", "[ptx]") {
  // Lane i of the other warp.
  const Sliced other =
      sliced(load_word +
                 "mul.f32 %f2, %f1, %f1;\nst.shared.f32 [%r9], %f2;\nbar.sync 0;\n"
                 "xor.b32 %r3, %r0, 32; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r8;\n"
                 "ld.shared.f32 %f9, [%r3];\n" +
                 store_word,
             5);
  INFO(other.text);
  REQUIRE(other.slice.lines.size() == 5);
  CHECK(other.slice.lines[1].lanes[0].warp == 0);
  CHECK(other.slice.lines[2].lanes[0].warp == 1);
  CHECK(other.slice.lines[2].lanes[0].lanes == 1u << 5);
  CHECK(other.has("between byte 148 and 151"));
  // A butterfly: all lanes of the warp.
  std::string sums = load_word + "mov.b32 %r1, %f1;\n";
  for (const char* distance : {"16", "8", "4", "2", "1"}) {
    sums += "shfl.sync.bfly.b32 %r2, %r1, " + std::string(distance) +
            ", 31, -1;\nmov.b32 %f2, %r2; mov.b32 %f3, %r1; add.f32 %f9, %f2, %f3; mov.b32 %r1, "
            "%f9;\n";
  }
  const Sliced all = sliced(sums + store_word, 7);
  CHECK(all.slice.lines.back().lanes[0].lanes == ~0u);
  CHECK(all.has("from 128 bytes"));
  // A copy that is under way until it is waited for; half of it is zeroes.
  const Sliced copied = sliced(
      "shl.b32 %r3, %r0, 4; add.u32 %r3, %r3, %r8; mul.wide.u32 %rd5, %r0, 16;\n"
      "add.s64 %rd5, %rd3, %rd5; mov.u32 %r4, 8; cp.async.cg.shared.global [%r3], [%rd5], 16, "
      "%r4;\ncp.async.wait_all;\nld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r3];\n"
      "add.f32 %f9, %f2, %f4;\n" +
          store_word,
      2);
  INFO(copied.text);
  CHECK(copied.has("cp.async.cg.shared.global"));
  CHECK(copied.has("from 4 bytes of a buffer of the test, between byte 36 and 39"));
  CHECK(copied.slice.sources.size() == 1);
}

TEST_CASE("ptx slice: of a choice the side that was taken", "[ptx]") {
  const std::string choose = load_word +
                             "add.f32 %f2, %f1, %f1;\nmul.f32 %f3, %f1, %f1;\n"
                             "setp.lt.u32 %p1, %r0, 8; selp.f32 %f9, %f2, %f3, %p1;\n" +
                             store_word;
  CHECK(sliced(choose, 7).has("add.f32"));
  CHECK_FALSE(sliced(choose, 7).has("mul.f32"));
  CHECK(sliced(choose, 8).has("mul.f32"));
  CHECK_FALSE(sliced(choose, 8).has("add.f32"));
}

TEST_CASE("ptx slice: an element of a product is of a row and a column", "[ptx]") {
  // a: the lane's own word in all four registers; element (3, 5): lane 14, its second.
  const Sliced product = sliced(
      "ld.global.u32 %r1, [%rd4]; mov.u32 %r2, %r1; mov.u32 %r3, %r1; mov.u32 %r4, %r1;\n"
      "ld.global.u32 %r5, [%rd4]; mov.u32 %r6, 0;\nmov.f32 %f0, 0f00000000;\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, "
      "%r4}, {%r5, %r6}, {%f0, %f0, %f0, %f0};\nmov.f32 %f9, %f2;\n" +
          store_word,
      14);
  INFO(product.text);
  const auto& lines = product.slice.lines;
  const auto of = [&](const std::string& opcode) {
    return *std::find_if(lines.begin(), lines.end(),
                         [&](const auto& line) { return line.instructions[0].opcode == opcode; });
  };
  CHECK(of("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").lanes[0].lanes == 1u << 14);
  // Row 3 of a lies in lanes 12 to 15, column 5 of b in 20 to 23.
  bool row = false, column = false;
  for (const auto& line : lines) {
    for (const auto& lanes : line.lanes) {
      row = row || lanes.lanes == 0xf000u;
      column = column || lanes.lanes == 0xf00000u;
    }
  }
  CHECK(row);
  CHECK(column);
}

TEST_CASE("ptx slice: of several blocks the first that wrote it", "[ptx]") {
  const Sliced last = sliced("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 2;\n" + load_word +
                                 "add.f32 %f9, %f1, %f1;\n@%p1 " + store_word,
                             0, 4);
  CHECK(last.slice.block == 2);
}

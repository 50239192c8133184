// Shapes and types of mma in kernels given as PTX, against the bits of an H200.

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "debug/dump/safetensors.h"
#include "debug/simt/machine.h"
#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

using Words = std::vector<std::uint32_t>;

Words captured(const std::string& name) {
  static const SafetensorsFile file(testing::data_file("mma_h200.safetensors"));
  const SafetensorsEntry* entry = file.find(name);
  REQUIRE(entry != nullptr);
  Words words(entry->bytes.size() / 4);
  std::memcpy(words.data(), entry->bytes.data(), entry->bytes.size());
  return words;
}

struct Shape {
  std::string name, opcode;
  int a, b, c;  ///< registers
};
const Shape shapes[] = {{"f16_k8", "m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 4},
                        {"bf16_k8", "m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, 4},
                        {"tf32_k4", "m16n8k4.row.col.f32.tf32.tf32.f32", 2, 1, 4},
                        {"tf32_k8", "m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4},
                        {"half_k16", "m16n8k16.row.col.f16.f16.f16.f16", 4, 2, 2},
                        {"half_k8", "m16n8k8.row.col.f16.f16.f16.f16", 2, 1, 2}};

std::string vector_of(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", %r" : "%r") + std::to_string(first + i);
  return text + "}";
}

/// A warp loads its registers, which lie 4, 2 and 4 to a lane, and stores the product.
PtxKernel kernel_of(const Shape& shape) {
  std::string body =
      ".reg .b32 %r<32>; .reg .b64 %rd<8>; mov.u32 %r30, %tid.x; mov.u32 %r31, %ctaid.x;\n"
      "mad.lo.u32 %r30, %r31, 32, %r30; mul.wide.u32 %rd5, %r30, 16; mul.wide.u32 %rd6, %r30, 8;\n"
      "ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2]; ld.param.u64 "
      "%rd3, [p3];\n"
      "add.s64 %rd0, %rd0, %rd5; add.s64 %rd1, %rd1, %rd6; add.s64 %rd2, %rd2, %rd5; add.s64 "
      "%rd3, %rd3, %rd5;\n"
      "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd0]; ld.global.v2.u32 {%r4, %r5}, [%rd1];\n"
      "ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd2];\n";
  body += "mma.sync.aligned." + shape.opcode + " " + vector_of(16, shape.c) + ", " +
          vector_of(0, shape.a) + ", " + vector_of(4, shape.b) + ", " + vector_of(8, shape.c) +
          ";\n";
  for (int i = 0; i < shape.c; ++i) {
    body +=
        "st.global.u32 [%rd3+" + std::to_string(4 * i) + "], %r" + std::to_string(16 + i) + ";\n";
  }
  return PtxKernel(ptx_module(body + "ret;"));
}

}  // namespace

TEST_CASE("ptx matrix: products of few or narrow elements have an H200's bits", "[ptx]") {
  for (const Shape& shape : shapes) {
    Words a = captured(shape.name + ".a"), b = captured(shape.name + ".b"),
          c = captured(shape.name + ".c"), d(c.size());
    const Words want = captured(shape.name + ".d");
    PtxKernel kernel = kernel_of(shape);
    for (Words* buffer : {&a, &b, &c, &d}) kernel.use(*buffer);
    kernel.grid.blocks[0] = static_cast<std::uint32_t>(a.size() / 128);
    REQUIRE(kernel.grid.blocks[0] >= 8);
    kernel.run({address(a.data()), address(b.data()), address(c.data()), address(d.data())});
    int wrong = 0;
    for (std::size_t i = 0; i < d.size(); ++i) {
      const bool stored = i % 4 < static_cast<std::size_t>(shape.c);
      wrong += stored && d[i] != want[i] ? 1 : 0;
    }
    INFO(shape.name);
    CHECK(wrong == 0);
  }
}

TEST_CASE("ptx matrix: what is not known of other GPUs is said", "[ptx]") {
  Words a(128), b(64), c(128), d(128);
  PtxKernel kernel = kernel_of(shapes[3]);
  for (Words* buffer : {&a, &b, &c, &d}) kernel.use(*buffer);
  kernel.grid.tensor_core = simt::ampere_rule;
  CHECK_THROWS_WITH(
      kernel.run({address(a.data()), address(b.data()), address(c.data()), address(d.data())}),
      ContainsSubstring("a GPU before Hopper"));
  CHECK_THROWS_WITH(kernel_of({"", "m16n8k16.row.col.f32.tf32.tf32.f32", 4, 2, 4}),
                    ContainsSubstring("of this shape"));
}

TEST_CASE("ptx: sums of wmma are of f16 or of f32", "[ptx]") {
  // A product is two of mma.m16n8k16, whose f16 sums are those of an H200; where only c or only d
  // is f16, ptxas converts it beside a product with sums of f32.
  const auto registers = [](const std::string& name, int first, int count) {
    std::string list;
    for (int i = 0; i < count; ++i) {
      list += (i > 0 ? ", %" : "{%") + name + std::to_string(first + i);
    }
    return list + "}";
  };
  const std::string begin =
      ".reg .b32 %a<8>, %b<8>, %c<8>, %d<8>, %h<8>, %r<8>; .reg .f32 %x<8>, %y<8>;\n"
      ".reg .b16 %s<2>; .reg .b64 %rd<8>;\n"
      "ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 32;\n"
      "add.s64 %rd1, %rd1, %rd0; mov.u32 %r1, 16;\n"
      "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " +
      registers("a", 0, 8) + ", [%rd0], %r1;\n" +
      "wmma.load.b.sync.aligned.col.m16n16k16.global.f16 " + registers("b", 0, 8) +
      ", [%rd0+512], %r1;\n";
  const std::string product = "wmma.mma.sync.aligned.row.col.m16n16k16.";
  const std::string factors = registers("a", 0, 8) + ", " + registers("b", 0, 8) + ", ";
  const auto load = [&](const std::string& type, const std::string& list) {
    return "wmma.load.c.sync.aligned.row.m16n16k16.global." + type + " " + list +
           (type == "f16" ? ", [%rd0+1024]" : ", [%rd0+2048]") + ", %r1;\n";
  };
  const auto store = [&](int at, const std::string& type, const std::string& list) {
    return "wmma.store.d.sync.aligned.row.m16n16k16.global." + type + " [%rd0+" +
           std::to_string(at) + "], " + list + ", %r1;\n";
  };
  std::string widen, narrow;  // c to %x, %y to d
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i), low = std::to_string(2 * i),
                      high = std::to_string(2 * i + 1);
    widen += "mov.b32 {%s0, %s1}, %c" + n + "; cvt.f32.f16 %x" + low + ", %s0; cvt.f32.f16 %x" +
             high + ", %s1;\n";
    narrow += "cvt.rn.f16x2.f32 %d" + n + ", %y" + high + ", %y" + low + ";\n";
  }
  constexpr std::size_t first = 4096, second = 6144;  // where the two results lie
  const auto outputs = [&](const std::string& body, simt::TensorCoreRule rule) {
    std::vector<std::byte> memory(8192 + 32);
    auto* words = reinterpret_cast<std::uint16_t*>(
        memory.data() + (32 - reinterpret_cast<std::uintptr_t>(memory.data()) % 32));
    std::uint32_t seed = 7;
    const auto next = [&] { return seed = seed * 1664525u + 1013904223u; };
    for (int i = 0; i < 1024; ++i) {  // f16 in ±[1/8, 8)
      words[i] =
          static_cast<std::uint16_t>((next() >> 16 & 0x83ffu) | (12u + (next() >> 28) % 6) << 10);
    }
    for (int i = 0; i < 256; ++i) {
      const float c = static_cast<float>(static_cast<std::int32_t>(next())) * 0x1p-28f;
      std::memcpy(&words[1024 + 2 * i], &c, 4);
    }
    PtxKernel kernel(ptx_module(begin + body + "ret;", 1));
    kernel.use(memory);
    kernel.grid.threads[0] = 32;
    kernel.grid.tensor_core = rule;
    kernel.run({address(words)});
    std::vector<std::uint16_t> result[2];
    for (int i = 0; i < 2; ++i) {
      result[i].assign(words + (i == 0 ? first : second) / 2,
                       words + (i == 0 ? first : second) / 2 + 512);
    }
    CHECK(std::count(result[0].begin(), result[0].begin() + 256, 0) < 10);
    CHECK(result[0] == result[1]);
  };
  const std::string half_c = load("f16", registers("c", 0, 4));
  outputs(half_c + product + "f16.f16 " + registers("d", 0, 4) + ", " + factors +
              registers("c", 0, 4) + ";\n" + store(first, "f16", registers("d", 0, 4)) +
              "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%h0, %h1}, {%a0, %a1, %a2, %a3}, "
              "{%b0, %b1}, {%c0, %c1};\n"
              "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%h2, %h3}, {%a0, %a1, %a2, %a3}, "
              "{%b2, %b3}, {%c2, %c3};\n" +
              store(second, "f16", registers("h", 0, 4)),
          simt::hopper_rule);
  outputs(half_c + widen + product + "f32.f16 " + registers("y", 0, 8) + ", " + factors +
              registers("c", 0, 4) + ";\n" + store(first, "f32", registers("y", 0, 8)) + product +
              "f32.f32 " + registers("y", 0, 8) + ", " + factors + registers("x", 0, 8) + ";\n" +
              store(second, "f32", registers("y", 0, 8)),
          simt::ampere_rule);
  outputs(load("f32", registers("x", 0, 8)) + product + "f16.f32 " + registers("h", 0, 4) + ", " +
              factors + registers("x", 0, 8) + ";\n" + store(first, "f16", registers("h", 0, 4)) +
              product + "f32.f32 " + registers("y", 0, 8) + ", " + factors + registers("x", 0, 8) +
              ";\n" + narrow + store(second, "f16", registers("d", 0, 4)),
          simt::ampere_rule);
  CHECK_THROWS_WITH(outputs(half_c + product + "f16.f16 " + registers("d", 0, 4) + ", " + factors +
                                registers("c", 0, 4) + ";\n",
                            simt::ampere_rule),
                    ContainsSubstring("before Hopper"));
}

TEST_CASE("ptx: wmma of tf32 is four products of mma.m16n8k4, whatever the order in memory",
          "[ptx]") {
  constexpr int stride = 12;  // of a and b; elements that are no part of them are NaN
  for (const bool a_by_columns : {false, true}) {
    for (const bool b_by_columns : {false, true}) {
      std::vector<float> memory(1024 + 8, std::numeric_limits<float>::quiet_NaN());
      float* const first =
          memory.data() + (32 - reinterpret_cast<std::uintptr_t>(memory.data()) % 32) % 32 / 4;
      float* const of[] = {first, first + 256, first + 512, first + 768};  // a, b, two results
      const auto a = [&](int row, int k) -> float& {
        return of[0][a_by_columns ? k * 20 + row : row * stride + k];
      };
      const auto b = [&](int k, int col) -> float& {
        return of[1][b_by_columns ? col * stride + k : k * 20 + col];
      };
      std::uint32_t seed = 11;
      const auto next = [&] {
        return static_cast<float>(static_cast<std::int32_t>(seed = seed * 1664525u + 1013904223u)) *
               0x1p-31f;
      };
      for (int i = 0; i < 16; ++i) {
        for (int k = 0; k < 8; ++k) {
          a(i, k) = next();
          b(k, i) = next();
        }
      }
      const auto load = [](const char* part, bool by_columns, bool lines_are_rows, int offset) {
        const std::string name = part;
        return "wmma.load." + name + ".sync.aligned." + (by_columns ? "col" : "row") +
               ".m16n16k8.global.tf32 {%" + name + "0, %" + name + "1, %" + name + "2, %" + name +
               "3}, [%rd0+" + std::to_string(offset) + "], " +
               std::to_string(by_columns == lines_are_rows ? 20 : stride) + ";\n";
      };
      const auto store = [](char name, int offset) {
        std::string list;
        for (int i = 0; i < 8; ++i) list += (i > 0 ? ", %" : "%") + (name + std::to_string(i));
        return "wmma.store.d.sync.aligned.row.m16n16k8.global.f32 [%rd0+" + std::to_string(offset) +
               "], {" + list + "}, 16;\n";
      };
      const std::string small = "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 ";
      PtxKernel kernel(ptx_module(
          ".reg .b32 %a<4>, %b<4>; .reg .f32 %c<8>, %d<8>, %z; .reg .b64 %rd<2>;\n"
          "ld.param.u64 %rd0, [p0]; mov.f32 %z, 0f00000000;\n" +
              load("a", a_by_columns, true, 0) + load("b", b_by_columns, false, 1024) +
              "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32 {%d0, %d1, %d2, %d3, %d4, "
              "%d5, %d6, %d7}, {%a0, %a1, %a2, %a3}, {%b0, %b1, %b2, %b3}, {%z, %z, %z, %z, %z, "
              "%z, %z, %z};\n" +
              store('d', 2048) + small +
              "{%c0, %c1, %c2, %c3}, {%a0, %a1}, {%b0}, {%z, %z, %z, %z};\n" + small +
              "{%c4, %c5, %c6, %c7}, {%a0, %a1}, {%b2}, {%z, %z, %z, %z};\n" + small +
              "{%c0, %c1, %c2, %c3}, {%a2, %a3}, {%b1}, {%c0, %c1, %c2, %c3};\n" + small +
              "{%c4, %c5, %c6, %c7}, {%a2, %a3}, {%b3}, {%c4, %c5, %c6, %c7};\n" +
              store('c', 3072) + "ret;",
          1));
      kernel.use(memory);
      kernel.grid.threads[0] = 32;
      kernel.grid.tensor_core = simt::hopper_rule;
      kernel.run({address(first)});
      for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 16; ++j) {
          double want = 0;
          for (int k = 0; k < 8; ++k) want += double(a(i, k)) * b(k, j);
          INFO("row " << i << ", column " << j);
          CHECK(std::abs(of[2][i * 16 + j] - want) <= 8 * 0x1p-9);  // factors to 10 bits
          CHECK(of[2][i * 16 + j] == of[3][i * 16 + j]);
        }
      }
    }
  }
}

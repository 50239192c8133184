// Shapes and types of mma in kernels given as PTX, against the bits of an H200.

#include <cstring>
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

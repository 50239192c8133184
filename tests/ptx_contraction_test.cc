// Which sums of products the machine computes as one fused multiply-add: as ptxas 13.0 does for
// sm_80 and sm_90, whose machine code each case was read from (nvdisasm).

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "debug/ptx/contraction.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;

namespace {

const std::string declarations =
    ".reg .f32 %f<32>; .reg .f64 %d<8>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;\n"
    "ld.param.u64 %rd1, [p0]; ld.global.f32 %f0, [%rd1]; ld.global.f32 %f1, [%rd1+4];\n"
    "ld.global.f32 %f2, [%rd1+8]; ld.global.f32 %f3, [%rd1+12]; ld.global.f32 %f4, [%rd1+16];\n"
    "ld.global.f32 %f5, [%rd1+20]; setp.lt.f32 %p1, %f3, 0f00000000;\n";

std::map<std::uint32_t, ptx::Contraction> contractions(const std::string& body) {
  const ptx::Module module = ptx::parse(ptx_module(declarations + body + " ret;", 1), "test.ptx");
  return ptx::find_contractions(module.functions[0]);
}

std::string store(int reg, int at = 0) {
  return " st.global.f32 [%rd1+" + std::to_string(at) + "], %f" + std::to_string(reg) + ";";
}

/// What the kernel leaves in its first word, of these numbers.
float result_of(const std::string& body, std::vector<float> numbers) {
  PtxKernel kernel(ptx_module(declarations + body + store(9) + " ret;", 1));
  kernel.use(numbers);
  kernel.grid.threads[0] = 1;
  kernel.run({address(numbers.data())});
  return numbers[0];
}

}  // namespace

TEST_CASE("ptx: sums of products are contracted where ptxas does", "[ptx]") {
  const struct {
    const char* body;
    std::string stores;
    std::size_t fused;
  } cases[] = {
      {"mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2;", store(9), 1},
      {"mul.f32 %f8,%f0,%f1; add.f32 %f9,%f2,%f8;", store(9), 1},
      {"mul.f32 %f8,%f0,%f1; sub.f32 %f9,%f2,%f8;", store(9), 1},
      {"mul.ftz.f32 %f8,%f0,%f1; sub.ftz.f32 %f9,%f8,%f2;", store(9), 1},
      {"mul.f32 %f8,%f0,%f1; add.sat.f32 %f9,%f8,%f2;", store(9), 1},
      {"mul.f32 %f8,%f0,0f3FB8AA3B; add.f32 %f9,%f8,0f3F000000;", store(9), 1},
      {"mul.f32 %f8,%f0,%f1; mov.f32 %f7,%f8; add.f32 %f9,%f7,%f2;", store(9), 1},
      {"mul.f32 %f8,%f0,%f1; neg.f32 %f7,%f8; add.f32 %f9,%f7,%f2;", store(9), 1},
      {"mul.f32 %f8,%f0,%f1; bar.sync 0; add.f32 %f9,%f8,%f2;", store(9), 1},
      {"mul.f32 %f8,%f0,%f1; L: add.f32 %f9,%f8,%f2;", store(9), 1},
      {"mul.f32 %f8,%f0,%f1; mov.f32 %f9,%f2; @%p1 add.f32 %f9,%f8,%f2;", store(9), 1},
      // Rounded on purpose, or otherwise.
      {"mul.rn.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2;", store(9), 0},
      {"mul.f32 %f8,%f0,%f1; add.rn.f32 %f9,%f8,%f2;", store(9), 0},
      {"mul.ftz.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2;", store(9), 0},
      {"mul.f32 %f8,%f0,%f1; add.ftz.f32 %f9,%f8,%f2;", store(9), 0},
      {"mul.sat.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2;", store(9), 0},
      {"mul.f32 %f8,%f0,%f1; abs.f32 %f7,%f8; add.f32 %f9,%f7,%f2;", store(9), 0},
      {"mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f8;", store(9), 0},
      {"mov.f32 %f8,%f4; @%p1 mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2;", store(9), 0},
      // All uses are sums, or none is contracted.
      {"mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2; sub.f32 %f10,%f8,%f3;", store(9) + store(10, 4),
       2},
      {"mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2; add.f32 %f10,%f8,%f9;", store(10), 2},
      {"mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2;", store(9) + store(8, 4), 0},
      {"mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2; mul.f32 %f10,%f8,%f3;", store(9) + store(10, 4),
       0},
      {"mul.f32 %f8,%f0,%f1; max.f32 %f7,%f8,%f3; sub.f32 %f9,%f8,%f7;", store(9), 0},
      {"mul.f32 %f8,%f0,%f1; add.rn.f32 %f9,%f8,%f2; add.f32 %f10,%f8,%f3;",
       store(9) + store(10, 4), 0},
      {"mul.f32 %f8,%f0,%f1; neg.f32 %f7,%f8; add.f32 %f9,%f7,%f2;", store(9) + store(7, 4), 0},
      {"mul.f32 %f8,%f0,%f1; selp.f32 %f7,%f8,%f4,%p1; add.f32 %f9,%f8,%f7;", store(9), 0},
      {"mul.f32 %f8,%f0,%f1; fma.rn.f32 %f9,%f2,%f3,%f8;", store(9), 0},
      // Of a constant or a parameter, also in a block before, but in no loop that is left.
      {"mul.f32 %f8,%f0,0f3F317218; @%p1 bra L; fma.rn.f32 %f2,%f3,%f4,%f5; L: add.f32 "
       "%f9,%f8,%f2;",
       store(9), 1},
      {"ld.param.f32 %f6,[p0]; mov.f32 %f7,%f6; mul.f32 %f8,%f7,%f0; @%p1 bra L; fma.rn.f32 "
       "%f2,%f3,%f4,%f5; L: sub.f32 %f9,%f2,%f8;",
       store(9), 1},
      {"ld.param.f32 %f6,[p0]; mul.f32 %f7,%f6,0f3F317218; mul.f32 %f8,%f0,%f7; @%p1 bra L; "
       "fma.rn.f32 %f2,%f3,%f4,%f5; L: add.f32 %f9,%f8,%f2;",
       store(9), 0},
      {"mul.f32 %f8,%f0,0f3F317218; mov.u32 %r2,%tid.x; mov.u32 %r1,0; L: add.f32 %f7,%f2,%f8; "
       "max.f32 %f2,%f7,%f3; add.u32 %r1,%r1,1; setp.lt.u32 %p2,%r1,%r2; @%p2 bra L;",
       store(2), 1},
      {"mov.u32 %r2,%tid.x; mov.u32 %r1,0; L: ld.volatile.global.f32 %f1,[%rd1+80]; mul.f32 "
       "%f8,%f1,0f3F317218; add.u32 %r1,%r1,1; setp.lt.u32 %p2,%r1,%r2; @%p2 bra L; add.f32 "
       "%f9,%f8,%f2;",
       store(9), 0},
      // In the same basic block.
      {"mul.f32 %f8,%f0,%f1; @%p1 bra L; add.f32 %f9,%f8,%f2; L:", store(9), 0},
      {"mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2; @%p1 bra L; add.f32 %f10,%f8,%f4; L:", store(9),
       0},
      // Two products in a sum.
      {"mul.f32 %f7,%f0,%f1; mul.f32 %f8,%f2,%f3; add.f32 %f9,%f7,%f8;", store(9), 1},
      {"mul.f32 %f7,%f0,%f1; mul.f32 %f8,%f2,%f3; add.f32 %f9,%f8,%f7; add.f32 %f10,%f8,%f4;",
       store(9) + store(10, 4), 1},
      {"mul.f32 %f7,%f0,%f1; mul.f32 %f8,%f2,%f3; add.f32 %f9,%f7,%f8; sub.f32 %f10,%f7,%f8;",
       store(9) + store(10, 4), 2},
      {"cvt.f64.f32 %d0,%f0; mul.f64 %d1,%d0,%d0; add.f64 %d2,%d1,%d0; cvt.rn.f32.f64 %f9,%d2;",
       store(9), 1},
      {"mul.f16x2 %r4,%r1,%r2; add.f16x2 %r5,%r4,%r3; mov.b32 %f9,%r5;", store(9), 1},
      {"mul.rn.f16x2 %r4,%r1,%r2; add.f16x2 %r5,%r4,%r3; mov.b32 %f9,%r5;", store(9), 0},
  };
  for (const auto& c : cases) {
    INFO(c.body << c.stores);
    CHECK(contractions(c.body + c.stores).size() == c.fused);
  }
  // Of two products the first, or the one with fewer uses.
  const auto first =
      contractions("mul.f32 %f7,%f0,%f1; mul.f32 %f8,%f2,%f3; add.f32 %f9,%f8,%f7;" + store(9));
  REQUIRE(first.size() == 1);
  CHECK(first.begin()->first - first.begin()->second.product == 1);
  const auto fewer = contractions(
      "mul.f32 %f7,%f0,%f1; mul.f32 %f8,%f2,%f3; add.f32 %f9,%f8,%f7; add.f32 %f10,%f8,%f4;" +
      store(9) + store(10, 4));
  REQUIRE(fewer.size() == 1);
  CHECK(fewer.begin()->first - fewer.begin()->second.product == 2);
}

TEST_CASE("ptx: a contracted sum is rounded once", "[ptx]") {
  const float a = 1 + 0x1p-12f, c = -1;
  const std::vector<float> numbers = {a, a, c, -2, 0, 0};
  const float fused = 0x1p-11f + 0x1p-24f, apart = 0x1p-11f;
  CHECK(result_of("mul.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2;", numbers) == fused);
  CHECK(result_of("mul.rn.f32 %f8,%f0,%f1; add.f32 %f9,%f8,%f2;", numbers) == apart);
  CHECK(result_of("neg.f32 %f7,%f2; mul.f32 %f8,%f0,%f1; sub.f32 %f9,%f8,%f7;", numbers) == fused);
  CHECK(result_of("mul.f32 %f8,%f0,%f1; sub.f32 %f9,%f2,%f8;", numbers) == -2 - fused);
  CHECK(result_of("mul.f32 %f8,%f0,%f1; neg.f32 %f7,%f8; sub.f32 %f9,%f2,%f7;", numbers) == fused);
  CHECK(result_of("mul.f32 %f8,%f0,%f1; neg.f32 %f7,%f8; sub.f32 %f9,%f7,%f2;", numbers) == -fused);
}

TEST_CASE("ptx: an approximation of a number that ptxas knows is exact", "[ptx]") {
  const struct {
    const char* body;
    std::uint32_t bits;  ///< in the machine code
  } cases[] = {{"mov.f32 %f8,0f43000000; rsqrt.approx.ftz.f32 %f9,%f8;", 0x3db504f3},
               {"rsqrt.approx.f32 %f9,0f40400000;", 0x3f13cd3a},
               {"mov.b32 %f8,0f40000000; sqrt.approx.ftz.f32 %f9,%f8;", 0x3fb504f3},
               {"mov.f32 %f8,0f3E99999A; ex2.approx.ftz.f32 %f9,%f8;", 0x3f9d9624},
               {"mov.f32 %f8,0f3F800000; cos.approx.ftz.f32 %f9,%f8;", 0x3f0a5140}};
  for (const auto& [body, bits] : cases) {
    INFO(body);
    CHECK(std::bit_cast<std::uint32_t>(result_of(body, std::vector<float>(8))) == bits);
  }
  // Of one that is computed, or assigned twice, what the unit makes of it.
  const std::vector<float> numbers = {128, 0, 0, 1, 0, 0, 0, 0};
  const float unit = result_of("rsqrt.approx.ftz.f32 %f9,%f0;", numbers);
  CHECK(std::bit_cast<std::uint32_t>(unit) != 0x3db504f3);
  CHECK(result_of("mov.f32 %f8,0f43000000; @%p1 mov.f32 %f8,0f00000000;"
                  "rsqrt.approx.ftz.f32 %f9,%f8;",
                  numbers) == unit);
}

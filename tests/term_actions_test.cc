// What instructions make of parts of attention.

#include "debug/ptx/term_actions.h"

#include <array>
#include <sstream>
#include <string>

#include "tests/support/catch.h"

namespace lanescope::ptx {

TEST_CASE("terms: what instructions make of them, by their opcodes", "[terms]") {
  using enum TermAction;
  const auto is = [](const std::string& opcode, TermAction action, int to, int from, int numbers,
                     int packs = 0, int parts = 1) {
    INFO(opcode << ", packs " << packs);
    const TermStep step = term_step(opcode, packs, parts);
    CHECK(step.action == action);
    CHECK(std::array<int, 3>{step.to, step.from, step.numbers} == std::array{to, from, numbers});
  };
  is("cvt.rn.f16x2.f32", convert_pair, 4, 4, 2);
  is("cvt.rn.satfinite.e4m3x2.f32", convert_pair, 2, 4, 2);
  is("cvt.rn.f16x2.e4m3x2", convert_halves, 4, 2, 2);
  is("cvt.rn.bf16.f32", convert, 2, 4, 1);
  is("cvt.rzi.s32.f32", convert, 4, 4, 1);
  is("cvt.u32.u16", bits, 4, 2, 1);
  is("fma.rn.bf16x2", fuse, 4, 4, 2);
  is("mul.f16", multiply, 2, 2, 1);
  is("add.s64", forget, 8, 8, 1);
  is("mov.b32", pack, 4, 2, 1, 1, 2);
  is("mov.b32", part, 2, 4, 1, 2, 2);
  is("mov.b64", pack, 8, 2, 1, 1, 4);
  const std::string product = "mma.sync.aligned.m16n8k16.row.col";
  CHECK(term_step("fma.rn.bf16x2", 0, 1).made == Type::bf16x2);
  CHECK(term_step("add.f32", 0, 1).made == Type::f32);
  CHECK(term_step(product + ".f16.f16.f16.f16", 0, 1).made == Type::f16);
  CHECK(term_step(product + ".f32.bf16.bf16.f32", 0, 1).made == Type::f32);
  std::istringstream of_words(
      "fma.rn.f32 add.f32 sub.ftz.f32 max.f32 max.s32 neg.f32 div.full.f32 rcp.approx.ftz.f32 "
      "ex2.approx.ftz.f32 lg2.approx.f32 add.s32 selp.f32 mov.f32 shl.b32 prmt.b32 mul.lo.s32 "
      "setp.gt.f32 bar.sync mov.pred");
  for (const TermAction action :
       {fuse, add, subtract, choose, choose, negate, divide, invert, exponential, logarithm,
        exponent, select, copy, bits, bits, forget, forget, forget, forget}) {
    std::string opcode;
    of_words >> opcode;
    is(opcode, action, 4, 4, 1);
  }
}

}  // namespace lanescope::ptx

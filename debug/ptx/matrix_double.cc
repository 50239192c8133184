// PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions": mma of .f64. PTX does not say in
// which order the products are added: here each is fused with the sum so far, from c on along k,
// as an H200 does it.

#include <algorithm>

#include "debug/ptx/double_nan.h"
#include "debug/ptx/matrix.h"
#include "debug/ptx/program_builder.h"

namespace lanescope::ptx {
namespace {

/// PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64" and on: of a, register i of a lane is
/// (lane / 4 + i % 2 * 8, lane % 4 + i / 2 * 4); of b, (lane % 4 + i * 4, lane / 4).
Flow multiply_doubles(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = warp.converge_all(); flow != Flow::next) return flow;
  demand_hopper(warp);
  const Fragments at = fragments_of(warp, in);
  double a[16][16], b[8][16];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < at.a_count; ++i) {
      a[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4] = warp.lanes<double>(at.a[i])[lane];
    }
    for (int i = 0; i < at.b_count; ++i) {
      b[lane / 4][lane % 4 + i * 4] = warp.lanes<double>(at.b[i])[lane];
    }
  }
  for (int i = 0; i < at.d_count; ++i) {
    const double* c = warp.lanes<double>(at.c[i]);
    double* d = warp.lanes<double>(at.d[i]);
    for (int lane = 0; lane < 32; ++lane) {
      const double* row = a[lane / 4 + i / 2 * 8];
      d[lane] = sum_of_products(row, b[lane % 4 * 2 + i % 2], 4 * at.b_count, c[lane]);
    }
  }
  follow_product(warp, at);
  return Flow::next;
}

}  // namespace

double sum_of_products(const double* a, const double* b, int count, double sum) {
  for (int k = 0; k < count; ++k) {
    sum = of_numbers(__builtin_fma(a[k], b[k], sum), a[k], sum, b[k]);
  }
  return sum;
}

bool decode_double_product(Decoder& d) {
  if (d.modifiers.peek_type() != Type::f64) return false;
  const int shape = d.modifiers.choose({"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"}, -1);
  if (shape < 0) d.fail("there is no such shape of .f64");
  for (int i = 0; i < 4; ++i) {
    if (d.demand_type() != Type::f64) d.fail("all of its matrices are of .f64");
  }
  const std::size_t registers = std::size_t{1} << shape, sums = shape == 0 ? 2 : 4;
  take_fragments(d, {sums, registers, std::max<std::size_t>(1, registers / 2), sums}, Type::b64);
  d.in.act = multiply_doubles;
  return true;
}

}  // namespace lanescope::ptx

#include <cmath>
#include <string>

#include "reference/arithmetic.h"
#include "reference/elementary.h"
#include "reference/inputs.h"
#include "reference/stages.h"
#include "tests/support/catch.h"
#include "tests/support/emulated_kernel.h"
#include "tests/support/files.h"

namespace lanescope::reference {
namespace {

using Catch::Matchers::ContainsSubstring;

using reference::infinity;

TEST_CASE("bounds: the bound of a dot product holds for chains and for every matrix unit",
          "[quick]") {
  const Problem problem{1, 1, 1, 64, 64, 128, false};
  for (const std::string& kind : input_kinds()) {
    const Inputs inputs = generate_inputs(problem, ElementType::f16, kind, 0);
    const Array q = load_rows(inputs.q, 0, 64, 64, 128), k = load_rows(inputs.k, 0, 64, 64, 128);
    for (const std::string arch : {"", "sm_70", "sm_75", "sm_86", "sm_90a", "sm_120"}) {
      const Accumulation rule =
          arch.empty() ? Accumulation::fma_chain() : Accumulation::tensor_core(arch);
      const double f = rule.relative_error(128);
      double worst = 0;
      for (Index row = 0; row < 64; ++row) {
        for (Index key = 0; key < 64; ++key) {
          const double initial = 3 * value_of(ElementType::f16, inputs.v.bits(row * 64 + key));
          const double got = testing::accumulate(rule, q.row(row), k.row(key), initial);
          const double want = (q.row(row) * k.row(key)).sum() + initial;
          const double t = (rule.magnitude(q.row(row), ElementType::f16) *
                            rule.magnitude(k.row(key), ElementType::f16))
                               .sum() +
                           std::abs(initial);
          worst = std::max(worst, std::abs(got - want) / (f * t));
        }
      }
      INFO(kind << " " << arch);
      CHECK(worst <= 1);
      CHECK(worst > 0.005);
    }
  }
  for (const std::string arch : {"sm_61", "hopper", "sm_", ""}) {
    CHECK_THAT(testing::usage_error([&] { Accumulation::tensor_core(arch); }),
               ContainsSubstring("sm_70"));
  }
}

TEST_CASE("bounds: rounding of bounded values covers the rounded values, and overflows") {
  Array x(1, 7);
  const double values[] = {0, 1.0003, 3e-8, 65519, 65520, -70000, std::nan("")};
  std::copy(std::begin(values), std::end(values), x.begin());
  const Bounded f16 = rounded(Bounded::exact(x), ElementType::f16);
  const Array held = round_values(x, ElementType::f16);
  for (Index i = 0; i < 4; ++i) CHECK(std::abs(held(i) - f16.value(i)) <= f16.error(i));
  CHECK(f16.error(0) == 0);
  CHECK(f16.value(4) == infinity);
  CHECK(f16.value(5) == -infinity);
  CHECK(std::isnan(f16.value(6)));
  CHECK(rounded(Bounded::exact(x), ElementType::e4m3).value(4) == 448);
}

TEST_CASE("bounds: what each operation of a stage rounds away is in them, and not much more") {
  const Arithmetic f16{Accumulation::fma_chain(), ElementType::f16, ElementType::f16};
  const Arithmetic bf16{Accumulation::fma_chain(), ElementType::bf16, ElementType::bf16};
  const Arithmetic e4m3{Accumulation::tensor_core_e4m3("sm_90a"), ElementType::e4m3,
                        ElementType::e4m3};
  const Bounded zero = Bounded::exact(Array::Zero(1, 1)), one = Bounded::exact(Array::Ones(1, 1)),
                unseen = Bounded::exact(Array::Constant(1, 1, -infinity));
  // l: ones, one added to the other.
  const Softmax sum = softmax(Bounded::exact(Array::Zero(1, 32)), {}, unseen, zero, {}, f16);
  const double of_p = sum.p.error.sum();
  CHECK(sum.l.value(0) == 32);
  CHECK(sum.l.error(0) >= of_p + 32 * gamma(31));
  CHECK(sum.l.error(0) <= 2 * (of_p + 32 * gamma(38)));
  // P: half the spacing of f16's subnormals on what is held, of a maximum held 4 too large.
  Bounded scores = Bounded::exact(Array::Zero(1, 2));
  scores.value(0, 1) = -30;
  scores.error(0, 0) = 4;
  const Softmax shifted = softmax(scores, {}, unseen, zero, {}, f16);
  CHECK(shifted.weights.error(0, 1) >= shifted.p.error(0, 1) + 15 * 0x1p-25);
  // Products that are flushed to zero, one by one.
  const Array tiny = Array::Constant(1, 4, 0x1p-64);
  const Bounded s = qk(tiny, tiny, {1}, {}, bf16);
  CHECK(s.value(0) == 0x1p-126);
  CHECK(s.error(0) >= s.value(0));
  const Bounded o = pv(Bounded::exact(tiny), zero, tiny.transpose(), zero, bf16);
  CHECK(o.value(0) == 0x1p-126);
  CHECK(o.error(0) >= o.value(0));
  // 32 ones in 13 bits: each of them and what was there, then their sum.
  const Array ones = Array::Ones(1, 32);
  const double lost = qk(ones, ones, {1}, {}, e4m3).error(0) * 0x1p13;
  CHECK(lost >= 33 + 32);
  CHECK(lost <= 33 + 33);
  // Two groups in 13 bits, in any order: where the large one goes first, each number of the small
  // one loses its share of that.
  Array large_first = Array::Constant(1, 64, 0x1p-6);
  for (Index key = 0; key < 32; ++key) large_first(0, key) = 128;
  const Array rising = large_first.map([](double x) { return x == 128 ? 0x1p-6 : 128; });
  const Array one_value = Array::Ones(64, 1);
  const double fallen =
      pv(Bounded::exact(large_first), zero, one_value, zero, e4m3).error(0) * 0x1p13;
  CHECK(fallen >= 32 * 32 * 128);
  CHECK(fallen <= 4 * 33 * 32 * 128);
  CHECK(pv(Bounded::exact(rising), zero, one_value, zero, e4m3).error(0) * 0x1p13 ==
        Approx(fallen));
  // O: a division, a multiplication, the rounding to f16.
  const Outputs out = epilogue(Bounded::exact(Array::Constant(1, 1, 100)), one, zero, {}, f16);
  CHECK(out.o_final.error(0) >= 100 * (0x1p-11 + 2 * 0x1p-24));
  CHECK(out.o_final.error(0) <= 100 * (0x1p-11 + 4 * 0x1p-24));
}

}  // namespace
}  // namespace lanescope::reference

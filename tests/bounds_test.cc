#include <cmath>
#include <string>

#include "reference/arithmetic.h"
#include "reference/elementary.h"
#include "reference/inputs.h"
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

}  // namespace
}  // namespace lanescope::reference

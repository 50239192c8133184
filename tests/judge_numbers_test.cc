// What is said of numbers of wrong rows that are not what their terms are.

#include "gates/run/judge_numbers.h"

#include <functional>
#include <string>

#include "gates/run/term_truth.h"
#include "tests/support/catch.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;

/// What is said of scores in which columns count as often as `factor` says.
/// Under a causal mask 10^6 is taken away from those that it hides.
std::optional<TermFault> fault_of(const std::function<double(std::int64_t)>& factor,
                                  bool causal = false) {
  const Problem problem{1, 1, 1, 8, 8, 64, causal};
  const Inputs inputs = generate_inputs(problem, ElementType::f32, "random", 3);
  TermTruth truth(problem, inputs);
  Provenance provenance;
  Provenance::Made& made = provenance.made.emplace_back();
  made.line = "k.cu:7";
  for (std::int64_t row = 0; row < 8; ++row) {
    for (std::int64_t key = 0; key < 8; ++key) {
      double score = causal && key > row ? -1e6 : 0;
      for (std::int64_t i = 0; i < problem.d; ++i) {
        score += factor(i) * truth.product(row, key, [=](std::int64_t own) { return own == i; });
      }
      Provenance::Term term;
      term.kind = "score";
      term.row = row;
      term.key = key;
      made.values.emplace_back(score, term);
    }
  }
  return judge_numbers(provenance, problem, inputs, {0, 1, 2, 3, 4, 5, 6, 7}, false);
}

}  // namespace

TEST_CASE("judge numbers: columns of scores that have a factor of their own", "[terms]") {
  const auto is = [](const std::function<double(std::int64_t)>& factor, Cause cause,
                     const std::string& factors) {
    const auto fault = fault_of(factor);
    REQUIRE(fault);
    INFO(factors << ": " << fault->evidence.back());
    CHECK((fault->cause == cause && fault->stage == Stage::qk));
    CHECK(fault->lines == std::vector<std::string>{"k.cu:7"});
    CHECK_THAT(fault->evidence.back(), ContainsSubstring(factors));
  };
  CHECK_FALSE(fault_of([](std::int64_t) { return 0.125; }));
  CHECK_FALSE(fault_of([](std::int64_t) { return 0.125; }, true));
  is([](std::int64_t i) { return i % 2 == 1 ? 3 : 1; }, Cause::wrong_scale,
     "columns by turns of 2 count 1, 3 times");
  is([](std::int64_t i) { return i % 4 == 3 ? 2.5 : 1; }, Cause::wrong_scale,
     "columns by turns of 4 count 1, 1, 1, 2.5 times");
  is([](std::int64_t i) { return i % 8 == 0 ? 0.5 : 1; }, Cause::wrong_scale,
     "columns by turns of 8 count 0.5, 1, 1, 1, 1, 1, 1, 1 times");
  is([](std::int64_t i) { return i < 32 ? 1 : 2; }, Cause::wrong_scale,
     "each 32 columns count 1, 2 times");
  // One that is applied again and again.
  is([](std::int64_t i) { return std::exp2(-double(i / 16)); }, Cause::scale_repeated,
     "each 16 columns count 1, 0.5, 0.25, 0.125 times");
  // Other columns than those: nothing is said of them.
  const auto odd = fault_of([](std::int64_t i) { return i % 3 == 0 ? 2 : 1; });
  REQUIRE(odd);
  CHECK((odd->cause == Cause::unexplained && odd->evidence.size() == 1));
}

TEST_CASE("judge numbers: scores that are off by little were made of too few bits", "[terms]") {
  const auto off_by = [](double share) {
    return fault_of([=](std::int64_t i) { return 1 + share * static_cast<double>(i * i % 7 - 3); });
  };
  const auto little = off_by(0.01), much = off_by(0.2);
  REQUIRE((little && much));
  CHECK((little->cause == Cause::precision_lost && little->stage == Stage::qk));
  CHECK(much->cause == Cause::unexplained);
}

}  // namespace lanescope

// What is said of numbers of wrong rows that are not what their terms are.

#include "gates/run/judge_numbers.h"

#include <functional>
#include <string>

#include "gates/run/term_truth.h"
#include "tests/support/catch.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr Problem one_head{1, 1, 1, 8, 8, 64, false};
const std::vector<std::int64_t> all_rows = {0, 1, 2, 3, 4, 5, 6, 7};

Provenance::Unit score_of(std::int64_t row, std::int64_t key) {
  return {Provenance::Unit::Kind::score, row, key, {}};
}

/// Weights of all keys but the first, relative to the first, whose exponents count so often.
Provenance::Made weights(TermTruth& truth, double factor, const std::string& line) {
  Provenance::Made made;
  made.line = line;
  for (const std::int64_t row : all_rows) {
    for (std::int64_t key = 1; key < 8; ++key) {
      Provenance::Term term;
      term.kind = "weight";
      term.row = row;
      term.a = score_of(row, key);
      term.b = score_of(row, 0);
      made.values.emplace_back(std::exp(factor * (truth.unit(term.a) - truth.unit(term.b))), term);
    }
  }
  return made;
}

/// Sums of P·V over `keys` keys of which those of each `width` count so often, the last ones first;
/// one an instruction. `any_log_sum`, `rough`: as judge_numbers takes them; `sums`: l is made, too,
/// and right.
std::optional<TermFault> fault_of_sums(std::int64_t width, const std::vector<double>& factors,
                                       bool any_log_sum = false, bool rough = false,
                                       bool sums = false) {
  const std::int64_t keys = width * std::ssize(factors);
  const Problem problem{1, 1, 1, 8, keys, 64, false};
  const Inputs inputs = generate_inputs(problem, ElementType::f32, "random", 3);
  TermTruth truth(problem, inputs);
  Provenance provenance;
  for (const std::int64_t row : all_rows) {
    Provenance::Made& made = provenance.made.emplace_back();
    made.line = "k.cu:9";
    for (std::int64_t column = 0; column < 4; ++column) {
      Provenance::Term term;
      term.kind = "output";
      term.row = row;
      term.column = column;
      term.b = score_of(row, 0);
      term.set = {{0, keys - 1}};
      double sum = 0;
      for (std::int64_t key = 0; key < keys; ++key) {
        const auto part = static_cast<std::size_t>((keys - 1 - key) / width);
        sum += factors[part] * truth.output(row, {{key, key}}, truth.unit(term.b), column);
      }
      made.values.emplace_back(sum, term);
    }
  }
  Provenance::Made l{"k.cu:8", {}};
  for (const std::int64_t row : all_rows) {
    Provenance::Term term;
    term.kind = "sum";
    term.row = row;
    term.b = score_of(row, 0);
    term.set = {{0, keys - 1}};
    l.values.emplace_back(truth.sum(row, term.set, truth.unit(term.b)), term);
  }
  if (sums) provenance.made.push_back(l);
  return judge_numbers(provenance, problem, inputs, {all_rows, !any_log_sum, any_log_sum}, rough);
}

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
  return judge_numbers(provenance, problem, inputs, {all_rows}, false);
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

TEST_CASE("judge numbers: scores and sums of e4m3 may have the scales of their heads", "[terms]") {
  const Problem problem{1, 2, 2, 4, 8, 64, false};
  Inputs inputs = generate_inputs(problem, ElementType::e4m3, "random", 3);
  for (Tensor* scales : {&inputs.q_scale, &inputs.v_scale}) scales->set(1, 2 * scales->at(0));
  TermTruth truth(problem, inputs);
  // What the numbers of a head are multiplied with, its scales or 1 behind them.
  const auto judged = [&](const std::string& kind, const std::function<double(bool)>& factor) {
    Provenance provenance;
    Provenance::Made& made = provenance.made.emplace_back();
    made.line = "k.cu:7";
    for (std::int64_t row = 0; row < 8; ++row) {
      for (std::int64_t i = 0; i < 8; ++i) {
        const bool second = row >= 4;
        Provenance::Term term;
        term.kind = kind;
        term.row = row;
        term.key = (second ? 8 : 0) + i;
        term.column = i;
        term.b = score_of(row, term.key);
        term.set = {{second ? 8 : 0, second ? 15 : 7}};
        const double number = kind == "score" ? truth.product(row, term.key)
                                              : truth.output(row, term.set, truth.unit(term.b), i);
        made.values.emplace_back(factor(second) * number, term);
      }
    }
    return judge_numbers(provenance, problem, inputs, {all_rows}, false);
  };
  for (const std::string kind : {"score", "output"}) {
    INFO(kind);
    const auto scales = [&](bool second) {
      return kind == "score" ? truth.scales_of(second ? 4 : 0, second ? 8 : 0)
                             : truth.v_scale_of(second ? 8 : 0);
    };
    CHECK(scales(false) != scales(true));
    CHECK_FALSE(judged(kind, [](bool) { return 0.5; }));
    CHECK_FALSE(judged(kind, scales));
    CHECK(judged(kind, [&](bool second) { return scales(!second); }));
  }
}

TEST_CASE("judge numbers: all weights may have one factor, and sums the same", "[terms]") {
  const Inputs inputs = generate_inputs(one_head, ElementType::f32, "random", 3);
  TermTruth truth(one_head, inputs);
  const auto judged = [&](double of_weights, double of_sums) {
    Provenance provenance;
    Provenance::Made& made = provenance.made.emplace_back(weights(truth, 1, "k.cu:8"));
    for (auto& [value, term] : made.values) value *= of_weights;
    Provenance::Made l{"k.cu:9", {}};
    for (const std::int64_t row : all_rows) {
      Provenance::Term term;
      term.kind = "sum";
      term.row = row;
      term.b = score_of(row, 0);
      term.set = {{0, 7}};
      l.values.emplace_back(of_sums * truth.sum(row, term.set, truth.unit(term.b)), term);
    }
    provenance.made.push_back(l);
    return judge_numbers(provenance, one_head, inputs, {all_rows}, false);
  };
  CHECK_FALSE(judged(1, 1));
  CHECK_FALSE(judged(256, 256));
  const auto of_sums = judged(256, 1.5);
  REQUIRE(of_sums);
  CHECK((of_sums->cause == Cause::wrong_scale && of_sums->stage == Stage::softmax));
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

TEST_CASE("judge numbers: tiles of P·V that have a factor of their own", "[terms]") {
  const auto again = fault_of_sums(32, {0.5, 0.25, 0.125});
  REQUIRE(again);
  CHECK((again->cause == Cause::scale_repeated && again->stage == Stage::pv));
  CHECK_THAT(
      again->evidence.back(),
      ContainsSubstring("keys of each 32, the last ones first, count 0.5, 0.25, 0.125 times"));
  // Of two tiles the square tells, and what vanishes does not.
  CHECK(fault_of_sums(64, {0.009, 8.1e-5})->cause == Cause::scale_repeated);
  CHECK(fault_of_sums(64, {1, 0.5})->cause == Cause::wrong_scale);
  CHECK(fault_of_sums(16, {1, 0.3, 1, 0.3})->cause == Cause::wrong_scale);
  CHECK_FALSE(fault_of_sums(16, {0.3, 0.3}).has_value());
}

TEST_CASE("judge numbers: P·V that is off by little is what it is where l is right", "[terms]") {
  const auto little = [](bool sums) {
    return fault_of_sums(3, {1, 1.035, 0.985, 1.02, 0.97}, false, false, sums);
  };
  REQUIRE((little(true) && little(false)));
  CHECK((little(true)->cause == Cause::precision_lost && little(true)->stage == Stage::pv));
  CHECK((little(false)->cause == Cause::unexplained && little(false)->or_stage == Stage::softmax));
}

TEST_CASE("judge numbers: P·V that is rough makes no log-sum-exp rough", "[terms]") {
  const auto rough = [](bool any_log_sum) {
    return fault_of_sums(16, {1, 1.002, 1, 0.998}, any_log_sum, true);
  };
  REQUIRE(rough(false));
  CHECK((rough(false)->cause == Cause::precision_lost && rough(false)->stage == Stage::pv));
  CHECK_FALSE(rough(true));
  CHECK_FALSE(fault_of_sums(16, {1, 1.002, 1, 0.998}));
}

TEST_CASE("judge numbers: exponents of another scale are the scores' where all are", "[terms]") {
  const Inputs inputs = generate_inputs(one_head, ElementType::f32, "random", 3);
  TermTruth truth(one_head, inputs);
  Provenance provenance;
  provenance.made = {weights(truth, 8, "k.cu:3")};
  const auto stage = [&] {
    const auto fault = judge_numbers(provenance, one_head, inputs, {all_rows}, false);
    REQUIRE(fault);
    CHECK(fault->cause == Cause::scale_missing);
    return fault->stage;
  };
  CHECK(stage() == Stage::qk);
  // Of as many instructions, as of a loop that is unrolled; one more makes them of parts.
  const Provenance::Made whole = provenance.made[0], parts = weights(truth, 3, "k.cu:3");
  provenance.made.clear();
  for (const auto& value : parts.values) provenance.made.push_back({"k.cu:3", {value}});
  for (const auto& value : whole.values) provenance.made.push_back({"k.cu:3", {value}});
  CHECK(stage() == Stage::qk);
  provenance.made.push_back(weights(truth, 1, "k.cu:5"));
  CHECK(stage() == Stage::softmax);
}

}  // namespace lanescope

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "debug/causes/diagnose.h"
#include "debug/causes/flaw_trial.h"
#include "debug/judge/diff.h"
#include "tests/support/catch.h"
#include "tests/support/diagnosed.h"
#include "tests/support/stranger_kernel.h"

namespace lanescope::testing {
namespace {

// Where a bug shows at all; of "rising" inputs a row has its weight on its last keys.
constexpr Problem problems[] = {
    {1, 1, 1, 100, 133, 64, false}, {2, 4, 2, 48, 192, 32, false}, {1, 2, 1, 80, 150, 40, true},
    {1, 1, 1, 96, 64, 64, true},    {1, 4, 2, 48, 70, 32, true},
};

bool names(const Diagnosis& diagnosis, const std::string& cause) {
  if (!diagnosis.certain) return false;
  if (name_of(diagnosis.cause) == cause) return true;
  // Several that come to the same numbers here are all named.
  return !diagnosis.rivals.empty() &&
         std::any_of(diagnosis.suspects.begin(), diagnosis.suspects.end(),
                     [&](const Finding& suspect) {
                       return suspect.certain() && name_of(suspect.cause) == cause;
                     });
}

}  // namespace

TEST_CASE("known flaws: a bug of a kernel that is not traced is named by its outputs", "[causes]") {
  std::uint64_t seed = 0;
  for (const StrangerBug& bug : stranger_bugs()) {
    int shown = 0;
    for (const Problem& problem : problems) {
      // f32 has no other type whose bits its own are taken for.
      const std::string name = bug.name;
      const bool mixes_types = name.ends_with("_bits") || name.find("bf16") != std::string::npos;
      constexpr ElementType types[] = {ElementType::f16, ElementType::bf16, ElementType::f32};
      const ElementType dtype = types[++seed % (mixes_types ? 2 : 3)];
      const Dump dump = stranger_dump(problem, dtype, "random", seed, 32, 32, bug.name);
      const DiffReport report = diff_against_reference(dump);
      if (report.match) continue;
      const Diagnosis diagnosis = diagnose(dump, report);
      ++shown;
      INFO(bug.name << ", " << name_of(dtype) << ", seed " << seed << ": "
                    << name_of(diagnosis.cause)
                    << (diagnosis.evidence.empty() ? "" : ", " + diagnosis.evidence[0]));
      CHECK(names(diagnosis, bug.cause));
      if (shown == 1) break;
    }
    INFO(bug.name);
    CHECK(shown > 0);
  }
}

// Its errors are within the bounds of most values: it is the nearest, and not certain.
TEST_CASE("known flaws: sums of half precision that take turns at the columns", "[causes]") {
  const Dump dump =
      stranger_dump(problems[0], ElementType::f16, "random", 222, 32, 32, "dot_in_two_f16");
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.cause == Cause::precision_lost);
  REQUIRE(diagnosis.first);
  CHECK(diagnosis.first->stage == Stage::qk);
  REQUIRE_FALSE(diagnosis.evidence.empty());
  CHECK(diagnosis.evidence[0].find("q.k is summed up in f16, even and odd columns apart") !=
        std::string::npos);
}

TEST_CASE("known flaws: O in sums of half precision", "[causes]") {
  const Dump dump = stranger_dump({1, 1, 1, 12, 256, 32, false}, ElementType::f16, "random", 9, 32,
                                  256, "o_in_f16");
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.cause == Cause::precision_lost);
  CHECK(diagnosis.first->stage == Stage::pv);
  REQUIRE_FALSE(diagnosis.evidence.empty());
  INFO(diagnosis.evidence[0]);
  CHECK(diagnosis.evidence[0].find("O is summed up in f16") != std::string::npos);
}

// With tiles whose order nobody knows, no sum of halves is bit for bit the same.
TEST_CASE("known flaws: O that loses more than a rounding at its end can", "[causes]") {
  const Problem problem{1, 1, 1, 16, 512, 64, false};
  const auto diagnosis_with = [&](auto change, bool lse_too) {
    Dump dump = stranger_dump(problem, ElementType::f16, "random", 9, 16, 32, "");
    Tensor& o = testing::tensor_of(dump, SiteId::o_final);
    for (std::int64_t i = 0; i < o.size(); ++i) o.set(i, change(i, o.at(i)));
    Tensor& lse = testing::tensor_of(dump, SiteId::lse);
    if (lse_too) lse.set(3, lse.at(3) + 0.01);
    return diagnosis_of(dump);
  };
  const auto off = [](std::int64_t i, double x) {
    return x + (i * 7 % 3 - 1) * 3 * std::ldexp(1, std::max(std::ilogb(x), -14) - 10);
  };
  const auto in_bf16 = [](std::int64_t, double x) {
    return value_of(ElementType::bf16, round_to(ElementType::bf16, x));
  };
  const std::string steps = "steps of f16, more than a rounding of O at the end is";
  const Diagnosis sums = diagnosis_with(off, false), stored = diagnosis_with(in_bf16, false);
  INFO(named(sums) << joined(sums.evidence) << named(stored) << joined(stored.evidence));
  CHECK(named(sums) == "pv o_final precision_lost?");
  CHECK(joined(sums.evidence).find(steps) != std::string::npos);
  CHECK(joined(sums.evidence).find("is a number of type f16") == std::string::npos);
  CHECK(stored.first->stage == Stage::epilogue);
  CHECK(joined(stored.evidence).find(steps) == std::string::npos);
  CHECK(diagnosis_with(off, true).first->stage == Stage::epilogue);
}

// What is cut off is within twice the bounds of e4m3: it is the nearest.
TEST_CASE("known flaws: P of e4m3 is cut off at the largest number of its type", "[causes]") {
  const Problem problem{1, 1, 1, 64, 64, 64, true};
  const auto dump_with = [&](double times) {
    Dump dump = stranger_dump(problem, ElementType::e4m3, "random", 5, 32, 32, "");
    dump.info.products = Products::tensor_core_e4m3;
    PlanInputs inputs(dump);
    Tensor& o = testing::tensor_of(dump, SiteId::o_final);
    for (std::int64_t query = 0; query < problem.len_q; ++query) {
      RowPlan plan = inputs.right_plan(0, 0, query);
      plan.p_kept = [=](double p) {
        return held_as(ElementType::e4m3, std::min(times * p, 448.0)) / times;
      };
      const PlannedRow row = inputs.carry_out(plan);
      for (std::int64_t col = 0; col < problem.d; ++col)
        o.set(query * problem.d + col, row.o[static_cast<std::size_t>(col)]);
      testing::tensor_of(dump, SiteId::lse).set(query, row.lse);
    }
    return dump;
  };
  CHECK(diff_against_reference(dump_with(256)).match);
  const Diagnosis diagnosis = diagnosis_of(dump_with(512));
  INFO(named(diagnosis) << joined(diagnosis.evidence));
  CHECK(named(diagnosis) == "softmax o_final clamped?");
  CHECK_THAT(joined(diagnosis.evidence),
             Catch::Matchers::ContainsSubstring("cut off at 0.875, as 2^9 P is in e4m3"));
}

// Rows that see no key have the mean of the keys in tiles that are longer than is said.
TEST_CASE("known flaws: masked keys that count up to the end of a tile of another size",
          "[causes]") {
  const Problem problem{1, 1, 1, 64, 32, 64, true};
  Dump dump = stranger_dump(problem, ElementType::f16, "random", 5, 32, 16, "");
  const Tensor& v = *dump.find("v");
  for (std::int64_t row = 0; problem.visible_keys(row) == 0; ++row) {
    for (std::int64_t column = 0; column < 64; ++column) {
      double sum = 0;
      for (std::int64_t key = 0; key < 32; ++key) sum += v.at(key * 64 + column);
      testing::tensor_of(dump, SiteId::o_final).set(row * 64 + column, sum / 64);
    }
    testing::tensor_of(dump, SiteId::lse).set(row, std::log(64) - 10000);
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO(named(diagnosis));
  CHECK(diagnosis.cause == Cause::mask_value);
  REQUIRE_FALSE(diagnosis.evidence.empty());
  INFO(diagnosis.evidence[0]);
  CHECK(diagnosis.evidence[0].find("those behind the last up to 64, too") != std::string::npos);
}

// Half precision ends at 65504.
TEST_CASE("known flaws: outputs that are beyond the range of their type", "[causes]") {
  const Dump dump = stranger_dump({1, 1, 1, 32, 96, 32, false}, ElementType::f16, "random", 4, 32,
                                  32, "pass_unscaled");
  const DiffReport report = diff_against_reference(dump);
  REQUIRE(report.first);
  const Tensor& o = *dump.find("o_final");
  std::int64_t infinite = 0;
  for (std::int64_t i = 0; i < o.size(); ++i) infinite += std::isinf(o.at(i));
  REQUIRE(infinite > 50);
  REQUIRE(infinite < o.size());
  const Diagnosis diagnosis = diagnose(dump, report);
  CHECK(diagnosis.certain);
  CHECK(diagnosis.cause == Cause::wrong_scale);
  CHECK(diagnosis.first->stage == Stage::qk);
}

// Rows of the first block are zero: those of others tell why.
TEST_CASE("known flaws: the second product leaves out tiles that are not whole", "[causes]") {
  const Dump dump = stranger_dump({1, 1, 1, 129, 129, 64, true}, ElementType::f16, "random", 5, 32,
                                  64, "o_of_whole_tiles");
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.sure());
  CHECK(diagnosis.cause == Cause::tile_skipped);
  CHECK(diagnosis.first->stage == Stage::pv);
}

// A number for each row explains it: that says where the bug is, and no more.
TEST_CASE("known flaws: both outputs are those of another l", "[causes]") {
  const Dump dump =
      stranger_dump(problems[0], ElementType::f16, "random", 5, 32, 32, "l_of_each_row_off");
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK_FALSE(diagnosis.certain);
  CHECK(diagnosis.cause == Cause::contribution_repeated);
  CHECK(diagnosis.first->stage == Stage::softmax);
}

TEST_CASE("known flaws: the tiles of V that heads take are solved for", "[causes]") {
  const Problem problem{1, 4, 2, 48, 96, 64, false};
  const Dump dump = stranger_dump(problem, ElementType::f16, "random", 5, 32, 32, "v_tiles_two_on");
  const Diagnosis diagnosis = diagnosis_of(dump);
  INFO((diagnosis.evidence.empty() ? "" : diagnosis.evidence[0]));
  CHECK(diagnosis.certain);
  CHECK(diagnosis.cause == Cause::wrong_source);
  CHECK_THAT(diagnosis.evidence.at(0),
             Catch::Matchers::ContainsSubstring("the tiles of V (32 keys each)"));
}

TEST_CASE("known flaws: results of splits in another order than they are read in", "[causes]") {
  const Problem problem{1, 2, 2, 40, 160, 64, false};
  const Dump dump = stranger_dump(problem, ElementType::f16, "random", 5, 32, 32, "");
  PlanInputs inputs(dump);
  const auto flaws = known_flaws(inputs.info());
  const auto named = std::ranges::find_if(flaws, [](const Flaw& flaw) {
    return flaw.text ==
           "in which O of 5 splits of the keys, each divided by its l, is read as [split, row], "
           "and lies as [row, split]";
  });
  REQUIRE(named != flaws.end());
  // Row 3 of head 0 gets split 0 of row 0 to split 3 of row 64: at 3, 83, ... of 5 in a row.
  RowPlan plan = inputs.right_plan(0, 0, 3);
  named->edit(plan);
  const PlannedRow planned = inputs.carry_out(plan),
                   right = inputs.carry_out(inputs.right_plan(0, 0, 3));
  CHECK(planned.lse == right.lse);
  std::vector<double> want(64);
  for (std::int64_t split = 0; split < 5; ++split) {
    const auto part = [&](std::int64_t row, std::int64_t of) {
      RowPlan own = inputs.right_plan(0, row / 40, row % 40);
      std::erase_if(own.terms, [&](const RowPlan::Term& term) { return term.key / 32 != of; });
      return inputs.carry_out(own);
    };
    const std::int64_t at = split * 80 + 3;
    const PlannedRow taken = part(at / 5, at % 5);
    const double weight = std::exp(part(3, split).lse - right.lse);
    for (std::size_t i = 0; i < 64; ++i) want[i] += weight * taken.o[i];
  }
  for (std::size_t i = 0; i < 64; ++i) CHECK(std::abs(planned.o[i] - want[i]) < 1e-9);
}

TEST_CASE("known flaws: splits whose log-sum-exps mix bases", "[causes]") {
  const Problem problem{1, 1, 1, 8, 128, 64, false};
  const Dump dump = stranger_dump(problem, ElementType::f16, "random", 5, 32, 64, "");
  PlanInputs inputs(dump);
  for (const auto& [text, power] :
       {std::pair{"m + log2 l, their weights powers of e", std::numbers::log2e},
        std::pair{"m in base 2 and ln l, their weights powers of 2", std::numbers::ln2}}) {
    const auto flaws = known_flaws(inputs.info());
    const auto named = std::ranges::find_if(flaws, [&](const Flaw& flaw) {
      return flaw.text ==
             "in which of 2 splits of the keys the log-sum-exps are " + std::string(text);
    });
    REQUIRE(named != flaws.end());
    RowPlan plan = inputs.right_plan(0, 0, 3);
    named->edit(plan);
    // Each split by itself, then both by what they weigh: e^m times a power of l.
    std::vector<double> o(64);
    double weights = 0, scale = 0;
    for (const std::int64_t split : {0, 1}) {
      RowPlan own = inputs.right_plan(0, 0, 3);
      std::erase_if(own.terms, [&](const RowPlan::Term& term) { return term.key / 64 != split; });
      const std::vector<double> scores = inputs.scores_of(own);
      const double m = std::ranges::max(scores);
      const PlannedRow part = inputs.carry_out(own);
      if (split == 0) scale = m;
      const double weight = std::exp(m - scale + power * (part.lse - m));
      weights += weight;
      for (std::size_t i = 0; i < 64; ++i) o[i] += weight * part.o[i];
    }
    const PlannedRow planned = inputs.carry_out(plan);
    CHECK(planned.lse == Approx(scale + std::log(weights)));
    for (std::size_t i = 0; i < 64; ++i) CHECK(std::abs(planned.o[i] - o[i] / weights) < 1e-9);
  }
}

// Nearly nothing is left of them, as of an O that lacks all keys: zero it is not.
TEST_CASE("known flaws: O in the bits of another type", "[causes]") {
  for (const auto& [own, other] : {std::pair{ElementType::bf16, ElementType::f16},
                                   std::pair{ElementType::f16, ElementType::bf16}}) {
    Dump dump = stranger_dump({1, 2, 2, 40, 64, 64, false}, own, "random", 5, 32, 64, "");
    const auto named = std::ranges::find(dump.tensors, "o_final", &Dump::Entry::name);
    REQUIRE(named != dump.tensors.end());
    Tensor& o = named->tensor;
    for (std::int64_t i = 0; i < o.size(); ++i) o.set(i, value_of(own, round_to(other, o.at(i))));
    const Diagnosis diagnosis = diagnosis_of(dump);
    CHECK(diagnosis.sure());
    CHECK(diagnosis.cause == Cause::wrong_type);
    CHECK(diagnosis.first->stage == Stage::epilogue);
  }
}

// The same comes of rows of K that change places, but these all rows of Q have.
TEST_CASE("known flaws: halves of a register of P that change places", "[causes]") {
  const Dump dump =
      stranger_dump(problems[0], ElementType::f16, "random", 5, 32, 32, "p_halves_exchanged");
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.cause == Cause::permuted);
  CHECK(diagnosis.first->stage == Stage::pv);
}

// Were they stored in the wrong place, what belongs there would be gone.
TEST_CASE("known flaws: parts of rows that hold another's, which is in its place too", "[causes]") {
  Dump dump =
      stranger_dump({1, 1, 1, 32, 64, 64, false}, ElementType::f16, "random", 5, 32, 64, "");
  const auto named = std::find_if(dump.tensors.begin(), dump.tensors.end(),
                                  [](const Dump::Entry& entry) { return entry.name == "o_final"; });
  REQUIRE(named != dump.tensors.end());
  Tensor& o = named->tensor;
  const Tensor right = o;
  for (std::int64_t row = 0; row < 32; ++row) {
    for (std::int64_t col = 0; col < 64; ++col) {
      if (row / 16 == col / 32) continue;
      o.set(row * 64 + col, right.at((row ^ 16) * 64 + col));
    }
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK_FALSE(diagnosis.certain);
  CHECK(diagnosis.cause == Cause::operand_of_other_row);
  CHECK(diagnosis.first->stage == Stage::pv);
}

// By its text a flaw is found again in other problems.
TEST_CASE("known flaws: those of the same text are the same", "[causes]") {
  for (const Problem& problem : problems) {
    for (const int bc : {32, 64}) {
      const Dump dump = stranger_dump(problem, ElementType::f16, "random", 3, 64, bc, "");
      PlanInputs inputs(dump);
      const auto outputs = [&](const Flaw& flaw) {
        std::vector<double> all;
        for (std::int64_t query = 0; query < problem.len_q; query += 7) {
          RowPlan plan = inputs.right_plan(problem.batch - 1, problem.heads - 1, query);
          flaw.edit(plan);
          const PlannedRow row = inputs.carry_out(plan);
          all.insert(all.end(), row.o.begin(), row.o.end());
          all.push_back(row.lse);
        }
        for (double& value : all) value = std::isnan(value) ? 0.125 : value;
        return all;
      };
      const std::vector<Flaw> known = known_flaws(dump.info);
      std::map<std::string, const Flaw*> by_text;
      for (const Flaw& flaw : known) {
        const auto [same, is_new] = by_text.emplace(flaw.text, &flaw);
        INFO(flaw.text);
        CHECK((is_new || outputs(flaw) == outputs(*same->second)));
      }
    }
  }
}

TEST_CASE("known flaws: what stands twice in O was read twice", "[causes]") {
  const Dump dump =
      stranger_dump(problems[0], ElementType::bf16, "random", 4, 32, 32, "v_half_repeated");
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.cause == Cause::wrong_source);
  CHECK(diagnosis.first->stage == Stage::pv);
}

// Each row is right but where a score is so much larger than what is subtracted that 2^x overflows.
TEST_CASE("known flaws: the maximum of some keys alone", "[causes]") {
  const Problem problem{1, 1, 1, 64, 64, 32, false};
  for (const ElementType dtype : {ElementType::f16, ElementType::bf16}) {
    const Dump dump = stranger_dump(problem, dtype, "large", 6, 32, 32, "m_of_half_the_keys");
    const Diagnosis diagnosis = diagnosis_of(dump);
    INFO(name_of(dtype) << ", " << name_of(diagnosis.cause));
    CHECK(diagnosis.sure());
    CHECK(diagnosis.cause == Cause::incomplete_reduction);
    CHECK(diagnosis.first->stage == Stage::softmax);
    REQUIRE_FALSE(diagnosis.evidence.empty());
    CHECK(diagnosis.evidence[0].find("the keys whose bit 16 is not set") != std::string::npos);
  }
}

TEST_CASE("known flaws: tiles of rows that are stored before the heads", "[causes]") {
  for (const std::int64_t batch : {1, 2}) {
    const Problem problem{batch, 2, 2, 64, 48, 32, false};
    const Dump dump =
        stranger_dump(problem, ElementType::f16, "random", 4, 32, 32, "stored_by_tiles");
    const Diagnosis diagnosis = diagnosis_of(dump);
    INFO(batch << " batches, " << name_of(diagnosis.cause));
    CHECK((diagnosis.sure() && diagnosis.cause == Cause::misplaced));
    CHECK(diagnosis.first->stage == Stage::epilogue);
  }
}

TEST_CASE("known flaws: a maximum that falls overflows where it forgets the tiles before",
          "[causes]") {
  const Problem problem{1, 1, 1, 128, 128, 64, false};
  Dump dump = stranger_dump(problem, ElementType::f16, "large", 0, 64, 64, "");
  PlanInputs inputs(dump);
  Tensor& o = const_cast<Tensor&>(*dump.find("o_final"));
  int lost = 0;
  for (int row = 0; row < 128; ++row) {
    const std::vector<double> scores = inputs.scores_of(inputs.right_plan(0, 0, row));
    const auto tile = scores.begin() + 64;
    const double falls =
        *std::max_element(scores.begin(), tile) - *std::max_element(tile, scores.end());
    // e^x is infinite beyond that.
    if (falls < 88.73) continue;
    for (int col = 0; col < 64; ++col) o.set(row * 64 + col, std::nan(""));
    ++lost;
  }
  REQUIRE(lost > 1);
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK((diagnosis.sure() && diagnosis.cause == Cause::wrong_formula));
  CHECK(diagnosis.first->stage == Stage::softmax);
  CHECK(diagnosis.evidence.at(0).find("the tile's own maximum: O is finite in just those rows") !=
        std::string::npos);
}

TEST_CASE("known flaws: a maximum is kept where powers pass beyond what P holds", "[causes]") {
  const Problem problem{1, 1, 1, 256, 256, 64, false};
  Dump dump = stranger_dump(problem, ElementType::f16, "large", 0, 64, 64, "");
  PlanInputs inputs(dump);
  Tensor& o = const_cast<Tensor&>(*dump.find("o_final"));
  constexpr double threshold = 24 * std::numbers::ln2;
  int lost = 0, taken = 0;
  for (int row = 0; row < 256; ++row) {
    const std::vector<double> scores = inputs.scores_of(inputs.right_plan(0, 0, row));
    double m = *std::max_element(scores.begin(), scores.begin() + 64);
    bool is_lost = false;
    for (auto tile = scores.begin() + 64; tile != scores.end(); tile += 64) {
      const double rise = *std::max_element(tile, tile + 64) - m;
      taken += rise > threshold;
      if (rise > threshold) {
        m += rise;
      } else if (rise > std::log(65520.0)) {
        is_lost = true;
      }
    }
    lost += is_lost;
    for (int col = 0; is_lost && col < 64; ++col) o.set(row * 64 + col, std::nan(""));
  }
  REQUIRE((lost > 8 && taken > 8));
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK((diagnosis.sure() && diagnosis.cause == Cause::overflow));
  CHECK(diagnosis.first->stage == Stage::softmax);
  CHECK(diagnosis.evidence.at(0).find("rise by more than 24 in base 2") != std::string::npos);
}

TEST_CASE("known flaws: registers of an operand of tf32 that are exchanged", "[causes]") {
  const Dump dump = stranger_dump(problems[0], ElementType::f32, "random", 9, 32, 32,
                                  "q_registers_of_tf32_exchanged");
  const DiffReport report = diff_against_reference(dump);
  const Diagnosis diagnosis = diagnose(dump, report);
  CHECK(diagnosis.certain);
  CHECK(diagnosis.cause == Cause::permuted);
  REQUIRE(diagnosis.first);
  CHECK(diagnosis.first->stage == Stage::qk);
}

TEST_CASE("known flaws: rows that see none of some keys say nothing of their maximum", "[causes]") {
  Dump dump =
      stranger_dump({1, 1, 1, 70, 70, 32, true}, ElementType::bf16, "random", 6, 32, 32, "");
  for (Dump::Entry& named : dump.tensors) {
    for (std::int64_t i = 0; named.name == "o_final" && i < 64 * 32; ++i) {
      named.tensor.set(i, std::nan(""));  // rows that see no key whose bit 64 is set
    }
  }
  const DiffReport report = diff_against_reference(dump);
  REQUIRE(report.first);
  CHECK(diagnose(dump, report).cause != Cause::incomplete_reduction);
}

// Kernels go through the tiles that the right mask needs: a wrong one lets nothing beyond them.
TEST_CASE("known flaws: the mask lets a key more, but none of the tile behind the last",
          "[causes]") {
  const Problem problem{1, 1, 1, 96, 96, 64, true};
  const Dump dump =
      stranger_dump(problem, ElementType::f16, "random", 5, 32, 32, "causal_late_in_tiles");
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.certain);
  CHECK(diagnosis.cause == Cause::mask_off_by_one);
  REQUIRE_FALSE(diagnosis.evidence.empty());
  CHECK(diagnosis.evidence[0].find("lets 1 key more, of the tiles that its block takes") !=
        std::string::npos);
}

TEST_CASE("known flaws: of two bugs at once, both are named", "[causes]") {
  struct Pair {
    const char* bugs;
    Cause one, other;
  };
  for (const Pair& pair :
       {Pair{"l_not_rescaled + lse_base_two", Cause::not_rescaled, Cause::wrong_base},
        Pair{"scale_squared + lse_without_maximum", Cause::wrong_scale, Cause::lse_without_maximum},
        Pair{"v_of_tile_before + lse_without_sum", Cause::stale_operand, Cause::lse_without_sum}}) {
    for (const ElementType dtype : {ElementType::f16, ElementType::bf16}) {
      const Dump dump = stranger_dump(problems[0], dtype, "random", 7, 32, 32, pair.bugs);
      const DiffReport report = diff_against_reference(dump);
      REQUIRE(report.first);
      const Diagnosis diagnosis = diagnose(dump, report);
      INFO(pair.bugs << ", " << name_of(dtype) << ": " << name_of(diagnosis.cause));
      REQUIRE_FALSE(diagnosis.flaws.empty());
      const Finding& named = diagnosis.flaws.front();
      const auto is_either = [&](Cause cause) { return cause == pair.one || cause == pair.other; };
      CHECK(is_either(named.cause));
      REQUIRE(named.other_cause);
      CHECK(is_either(*named.other_cause));
      CHECK(named.cause != *named.other_cause);
    }
  }
}

TEST_CASE("known flaws: heads of K and V that lie as far apart as rows of Q are one bug",
          "[causes]") {
  const Dump dump =
      stranger_dump(problems[1], ElementType::f16, "random", 7, 32, 32, "k_and_v_at_len_q");
  const Diagnosis diagnosis = diagnosis_of(dump);
  REQUIRE_FALSE(diagnosis.flaws.empty());
  CHECK(diagnosis.flaws.front().cause == Cause::wrong_head);
  CHECK_FALSE(diagnosis.flaws.front().other_cause);
}

// What lies behind a tensor are zeros, or nobody knows what.
TEST_CASE("known flaws: heads that begin behind the end of V", "[causes]") {
  const Problem problem{1, 4, 2, 64, 32, 32, false};  // head 1 of V would begin at row 64 of 64
  Dump dump = stranger_dump(problem, ElementType::f16, "random", 7, 32, 32, "");
  PlanInputs inputs(dump);
  const std::vector<Flaw> flaws = known_flaws(dump.info);
  const auto flaw = std::ranges::find_if(flaws, [](const Flaw& known) {
    return known.text == "in which the heads of V begin at rows head * len_q";
  });
  REQUIRE(flaw != flaws.end());
  const auto trial_with = [&](double value, std::int64_t from_row) {
    Dump wrong = dump;
    Tensor* const o = const_cast<Tensor*>(wrong.find("o_final"));
    for (std::int64_t i = from_row * problem.d; i < o->size(); ++i) o->set(i, value);
    const DiffReport report = diff_against_reference(wrong);
    return try_flaw(*flaw, inputs, output_rows(Scene(wrong, *report.first), std::nullopt));
  };
  constexpr std::int64_t second = 2 * 64;  // the first row of O that takes the second head of V
  CHECK(trial_with(0, second).wins());
  const FlawTrial unknown = trial_with(7, second);
  CHECK((!unknown.wins() && unknown.allows()));
  CHECK_FALSE(trial_with(7, 64).allows());
}

// Of outputs that are off by little, few values tell: else all rows were gone over for each bug.
TEST_CASE("known flaws: a bug is given up where what tells does not follow", "[causes]") {
  const Dump dump = stranger_dump(problems[0], ElementType::f16, "random", 8, 32, 32, "");
  PlanInputs inputs(dump);
  const PlannedRow right = inputs.carry_out(inputs.right_plan(0, 0, 0));
  OutputRow row{0, 0, 0, {}, {}};
  for (const double o : right.o) row.o.push_back({o, o, 0, false});
  row.o[3].got += 0.1;
  row.telling = {3, 4, 5, 6};
  row.wrong_values = 200;  // of which a few may not follow
  const auto decisive_with = [&](double factor) {
    const Flaw flaw{Cause::wrong_scale, Stage::qk, "", 0,
                    [&](RowPlan& plan) { plan.scale *= factor; }};
    return try_flaw(flaw, inputs, {row}).decisive;
  };
  CHECK(decisive_with(1) == 0);
  // What follows is gone over.
  row.o[3].got = right.o[3];
  row.o[3].want += 0.1;
  CHECK(decisive_with(1) == 1);
}

TEST_CASE("known flaws: what explains one output alone is suspected", "[causes]") {
  Dump dump = stranger_dump(problems[0], ElementType::f16, "random", 8, 32, 32, "depth_half");
  for (Dump::Entry& named : dump.tensors) {
    if (named.name != "o_final") continue;
    for (std::int64_t i = 0; i < named.tensor.size(); i += 3) named.tensor.set(i, 1.5);
  }
  const Diagnosis diagnosis = diagnosis_of(dump);
  CHECK(diagnosis.cause == Cause::contribution_missing);
  CHECK_FALSE(diagnosis.certain);
  REQUIRE(diagnosis.first);
  CHECK(diagnosis.first->stage == Stage::qk);
}

TEST_CASE("known flaws: the stranger's kernel without a bug matches", "[causes]") {
  for (const ElementType dtype : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
    for (const Problem& problem : problems) {
      CHECK(diff_against_reference(stranger_dump(problem, dtype, "random", 3, 32, 32, "")).match);
    }
  }
}

TEST_CASE("known flaws: as many splits as the problem asks for leave out other keys in each") {
  const auto left_out = [](std::int64_t len_kv) {
    const Dump dump =
        stranger_dump({1, 1, 1, 4, len_kv, 32, false}, ElementType::f16, "random", 1, 32, 64, "");
    PlanInputs inputs(dump);
    std::ptrdiff_t count = 0;
    for (const Flaw& flaw : known_flaws(dump.info)) {
      if (flaw.text.find("len_kv / 64 splits") == flaw.text.npos) continue;
      RowPlan plan = inputs.right_plan(0, 0, 0);
      flaw.edit(plan);
      count += std::ranges::count(plan.terms, 0.0, &RowPlan::Term::in_o);
    }
    return count;
  };
  CHECK(left_out(101) == 1);
  CHECK(left_out(129) == 0);  // three of 43
  CHECK(left_out(131) == 2);
}

TEST_CASE("known flaws: none makes a NaN of numbers, however large O may be with it") {
  Dump dump =
      stranger_dump({1, 1, 1, 28, 21, 128, false}, ElementType::bf16, "random", 0, 16, 16, "");
  for (const auto& [id, value] : {std::pair{SiteId::o_final, NAN}, {SiteId::lse, -INFINITY}}) {
    Tensor& tensor = tensor_of(dump, id);
    for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, value);
  }
  CHECK(diagnose(dump, diff_against_reference(dump)).flaws.empty());
}

// 0 has no leading 1 either.
TEST_CASE("known flaws: small numbers of e4m3 that are widened as others", "[causes]") {
  const Problem problem{1, 1, 1, 64, 96, 64, false};
  Dump dump = stranger_dump(problem, ElementType::e4m3, "rising", 5, 32, 32, "");
  PlanInputs inputs(dump);
  const auto flaws = known_flaws(inputs.info());
  const auto named_with = [&](const std::string& text) {
    const auto flaw = std::ranges::find_if(
        flaws, [&](const Flaw& f) { return f.text.find(text) != f.text.npos; });
    REQUIRE(flaw != flaws.end());
    for (std::int64_t query = 0; query < problem.len_q; ++query) {
      RowPlan plan = inputs.right_plan(0, 0, query);
      flaw->edit(plan);
      const PlannedRow row = inputs.carry_out(plan);
      for (std::int64_t col = 0; col < problem.d; ++col) {
        testing::tensor_of(dump, SiteId::o_final)
            .set(query * problem.d + col, row.o[static_cast<std::size_t>(col)]);
      }
      testing::tensor_of(dump, SiteId::lse).set(query, row.lse);
    }
    const Diagnosis diagnosis = diagnosis_of(dump);
    return named(diagnosis) + ": " + joined(diagnosis.evidence);
  };
  const std::string as_normal = named_with("in whose Q, K and V 0 and what is below 2^-6");
  INFO(as_normal);
  CHECK(as_normal.starts_with("load o_final wrong_type"));
  CHECK(as_normal.find("as if they were normal") != std::string::npos);
}

}  // namespace lanescope::testing

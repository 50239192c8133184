#include <functional>
#include <numbers>
#include <string>
#include <utility>

#include "debug/causes/splits.h"

namespace lanescope {
namespace {

void add_weights(const Splits& splits, Flaws& flaws) {
  struct Rule {
    Combine rule;
    Cause cause;
    const char* what;
  };
  const Rule rules[] = {
      {Combine::mean, Cause::wrong_formula, "weigh all the same"},
      {Combine::by_maximum, Cause::wrong_formula, "weigh by their maxima alone, without l"},
      {Combine::by_sum, Cause::wrong_formula, "weigh by l of their own maxima"},
      {Combine::of_pair, Cause::operand_of_other_row, "weigh as those of split i xor 1 should"},
      {Combine::of_next, Cause::operand_of_other_row, "weigh as those of split i + 1 should"},
      {Combine::undivided, Cause::not_normalised, "are not divided by the sum of their weights"},
  };
  for (const auto& [rule, cause, what] : rules) {
    flaws.push_back({cause, Stage::combine, "in which the results of " + splits.text + " " + what,
                     1, [=, rule = rule](RowPlan& plan) {
                       plan.combine = rule;
                       plan.part_keys = splits.part_keys();
                     }});
  }
  flaws.push_back({Cause::reduction_too_wide, Stage::combine,
                   "in which those of " + splits.text +
                       " that have none which the row sees count as a key with score 0, in l alone",
                   1, [=](RowPlan& plan) {
                     const std::int64_t seen = std::ssize(plan.terms);
                     const std::int64_t ranges = (seen + splits.keys - 1) / splits.keys;
                     const std::int64_t used = std::min(splits.count, ranges);
                     plan.sink = static_cast<double>(splits.count - used);
                   }});
}

/// Parts that are not brought to the common maximum, or by other factors than 2^(m_i − m).
void add_powers(const Splits& splits, Flaws& flaws) {
  constexpr double log2e = std::numbers::log2e, ln2 = std::numbers::ln2;
  struct Rule {
    Cause cause;
    const char* what;
    PartPowers powers;
  };
  const Rule rules[] = {
      {Cause::not_rescaled, "O and l are added up, each at its own maximum", {0, 0}},
      {Cause::not_rescaled, "O are added up, each at its own maximum", {0, 1}},
      {Cause::not_rescaled, "l are added up, each at its own maximum", {1, 0}},
      {Cause::rescaled_twice, "O and l are brought to the maximum twice", {2, 2}},
      {Cause::rescaled_twice, "O are brought to the maximum twice", {2, 1}},
      {Cause::rescaled_twice, "l are brought to the maximum twice", {1, 2}},
      {Cause::wrong_base, "maxima are in base 2, their weights powers of e", {log2e, log2e}},
      {Cause::wrong_base, "maxima are in base 2, the weights of O powers of e", {log2e, 1}},
      {Cause::wrong_base, "maxima are in base 2, the weights of l powers of e", {1, log2e}},
      {Cause::wrong_base, "maxima are in base e, their weights powers of 2", {ln2, ln2}},
      {Cause::wrong_base, "maxima are in base e, the weights of O powers of 2", {ln2, 1}},
      {Cause::wrong_base, "maxima are in base e, the weights of l powers of 2", {1, ln2}},
      {Cause::wrong_base,
       "log-sum-exps are m + log2 l, their weights powers of e",
       {1, 1, log2e - 1, log2e - 1}},
      {Cause::wrong_base,
       "log-sum-exps are m in base 2 and ln l, their weights powers of 2",
       {1, 1, ln2 - 1, ln2 - 1}},
      {Cause::wrong_base,
       "log-sum-exps are natural, their weights powers of 2",
       {ln2, ln2, ln2 - 1, ln2 - 1}},
      {Cause::wrong_base,
       "log-sum-exps are in base 2, their weights powers of e",
       {log2e, log2e, log2e - 1, log2e - 1}},
      {Cause::weighted_by_sum, "O, not divided by l, are weighted by l too", {1, 1, 1}},
      {Cause::normalised_twice, "O are divided by their l, and weighted without it", {1, 1, -1}},
  };
  for (const auto& [cause, what, powers] : rules) {
    // Who has the first takes in the others.
    for (const std::size_t first : {0, 1}) {
      flaws.push_back({cause, Stage::combine,
                       "in which of " + splits.text + (first > 0 ? ", but for the first," : "") +
                           " the " + what,
                       1 + static_cast<int>(first), [=, powers = powers](RowPlan& plan) {
                         plan.part_powers = powers;
                         plan.part_powers.first = first;
                         plan.part_keys = splits.part_keys();
                       }});
    }
  }
}

/// Butterflies over the lanes of a warp, a split to each, of which the first or the last steps are
/// missing.
void add_reductions(const Splits& splits, Flaws& flaws) {
  const std::pair<int, const char*> steps[] = {
      {0x1e, "16 to 2"}, {0x1c, "16 to 4"}, {1, "1"}, {3, "2 and 1"}, {0, "none"}};
  for (const auto& [distances, text] : steps) {
    if (distances >= 3 && distances < 16 && splits.count <= distances + 1) continue;
    for (const bool of_sum : {false, true}) {
      const PartLanes lanes{.of_maximum = of_sum ? 31 : distances,
                            .of_sum = of_sum ? distances : 31};
      flaws.push_back({Cause::incomplete_reduction, Stage::combine,
                       "in which the " + std::string(of_sum ? "sum of the weights" : "maximum") +
                           " of " + splits.text +
                           " is taken over a part of a warp's lanes (distances: " + text + ")",
                       1, [=](RowPlan& plan) {
                         plan.part_lanes = lanes;
                         plan.part_keys = splits.part_keys();
                       }});
    }
  }
}

/// O of parts that lies in another order than it is read in, or is read in one place for all.
void add_places(const DumpInfo& info, const Splits& splits, Flaws& flaws) {
  const std::int64_t rows = info.problem.queries(), count = splits.count;
  struct Order {
    Cause cause;
    const char* text;
    std::function<PartPlaces::Place(std::int64_t row, std::size_t part)> from;
  };
  const Order orders[] = {
      {Cause::wrong_stride, "is read as [split, row], and lies as [row, split]",
       [=](std::int64_t row, std::size_t part) {
         const std::int64_t at = static_cast<std::int64_t>(part) * rows + row;
         return PartPlaces::Place{at / count, static_cast<std::size_t>(at % count)};
       }},
      {Cause::wrong_stride, "is read as [row, split], and lies as [split, row]",
       [=](std::int64_t row, std::size_t part) {
         const std::int64_t at = row * count + static_cast<std::int64_t>(part);
         return PartPlaces::Place{at % rows, static_cast<std::size_t>(at / rows)};
       }},
      {Cause::wrong_source, "is that of the first of them for all",
       [](std::int64_t row, std::size_t) {
         return PartPlaces::Place{row, 0};
       }},
  };
  for (const auto& [cause, text, from] : orders) {
    for (const bool divided : {true, false}) {
      flaws.push_back({cause, Stage::combine,
                       "in which O of " + splits.text +
                           (divided ? ", each divided by its l," : "") + " " + text,
                       1, [=, from = from](RowPlan& plan) {
                         plan.part_keys = splits.part_keys();
                         plan.part_places = {from, static_cast<std::size_t>(count), divided};
                       }});
    }
  }
}

}  // namespace

void add_merges_of_log_sums(const Splits& splits, Flaws& flaws) {
  constexpr double log2e = std::numbers::log2e;
  struct Rule {
    Cause cause;
    const char* what;
    double largest, sum;  ///< factors
  };
  const Rule rules[] = {
      {Cause::wrong_base,
       "is the largest, in base 2, plus the natural logarithm of their weights' sum", log2e, 1},
      {Cause::wrong_base, "is the largest plus the logarithm in base 2 of the sum of their weights",
       1, log2e},
      {Cause::lse_without_sum, "is the largest alone", 1, 0},
      {Cause::lse_without_maximum, "lacks the largest", 0, 1},
  };
  for (const auto& [cause, what, largest, sum] : rules) {
    flaws.push_back({cause, Stage::combine,
                     "whose log-sum-exp, of those of " + splits.text + ", " + what, 1,
                     [=, largest = largest, sum = sum](RowPlan& plan) {
                       plan.lse = LseRule::of_parts;
                       plan.lse_of_m = largest;
                       plan.lse_of_l = sum;
                       plan.part_keys = splits.part_keys();
                     }});
  }
}

void add_flaws_of_merges(const DumpInfo& info, const Splits& splits, Flaws& flaws) {
  add_weights(splits, flaws);
  add_powers(splits, flaws);
  add_merges_of_log_sums(splits, flaws);
  add_reductions(splits, flaws);
  add_places(info, splits, flaws);
}

}  // namespace lanescope

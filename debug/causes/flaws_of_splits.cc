#include <algorithm>
#include <numbers>
#include <set>
#include <string>
#include <utility>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// The keys in parts that blocks of their own go through.
struct Splits {
  std::int64_t count, keys;  ///< how many, and of how many keys
  std::string text;
  /// They take so many keys in turns: blocks a tile, the warps of a block a part of each tile.
  bool by_turns = false;

  PartKeys part_keys() const { return {keys, by_turns ? count : 0}; }
};

/// Parts of whole tiles, and of as many keys as make all of them the same.
std::vector<Splits> splits_of(const DumpInfo& info) {
  std::vector<Splits> all;
  const std::int64_t len = info.problem.len_kv, tiles = (len + info.bc - 1) / info.bc;
  for (const std::int64_t count : {2, 3, 4, 5, 6, 8, 16}) {
    const std::string text = std::to_string(count) + " splits of the keys";
    const std::int64_t by_tiles = (tiles + count - 1) / count * info.bc;
    const std::int64_t by_keys = (len + count - 1) / count;
    if (count <= tiles) all.push_back({count, by_tiles, text});
    if (count <= len && by_keys != by_tiles) {
      all.push_back({count, by_keys, text + " (" + keys_text(by_keys) + " each)"});
    }
    if (count <= tiles) all.push_back({count, info.bc, text + " (tiles by turns)", true});
    if (info.bc % count == 0) {
      const std::int64_t keys = info.bc / count;
      all.push_back({count, keys, text + " (" + keys_text(keys) + " of each tile)", true});
    }
  }
  return all;
}

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
  flaws.push_back({Cause::contribution_repeated, Stage::combine,
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

/// The last keys, from `end` on, count in nothing.
Flaw keys_in_none(Cause cause, const std::string& text, int choices, std::int64_t end) {
  return {cause, Stage::qk, "in which " + text, choices, [=](RowPlan& plan) {
            for (Term& term : plan.terms) {
              if (term.key >= end) term.in_o = term.in_l = 0;
            }
          }};
}

/// Splits of whole keys or tiles, so many to each that some of the last are in none.
void add_remainders(const DumpInfo& info, Flaws& flaws) {
  const std::int64_t len = info.problem.len_kv;
  // As many splits as the problem asks for, which are others in each.
  std::set<std::int64_t> ranges = {64, 128, 256};
  ranges.insert(info.bc);
  for (const std::int64_t range : ranges) {
    const std::int64_t count = rounded_up(len, range) / range, end = len / count * count;
    if (end == len) continue;
    flaws.push_back(keys_in_none(Cause::contribution_missing,
                                 "len_kv / " + std::to_string(range) +
                                     " splits, rounded up, have as many keys each, rounded down: "
                                     "the last ones are in none",
                                 1, end));
  }
  for (const std::int64_t step : {std::int64_t{1}, std::int64_t{info.bc}}) {
    for (const std::int64_t count : {2, 3, 4, 5, 6, 8, 16}) {
      const std::int64_t end = len / step / count * count * step;
      if (end == 0 || end == len || (step > 1 && len / step % count == 0)) continue;
      flaws.push_back(keys_in_none(step == 1 ? Cause::contribution_missing : Cause::tile_skipped,
                                   std::to_string(count) + " splits have len_kv / " +
                                       std::to_string(count) + (step == 1 ? " keys" : " tiles") +
                                       " each, rounded down: the last " + keys_text(len - end) +
                                       " in none",
                                   2, end));
    }
  }
}

void add_shares(const Splits& splits, std::int64_t tile, Flaws& flaws) {
  for (const std::int64_t more : {std::int64_t{1}, tile}) {
    if (splits.keys < more) continue;
    flaws.push_back({Cause::contribution_repeated, Stage::qk,
                     "in which each of " + splits.text + " takes " + keys_text(more) +
                         " of the next one's, too",
                     1, [=](RowPlan& plan) {
                       for (Term& term : plan.terms) {
                         const bool again =
                             term.key >= splits.keys && term.key % splits.keys < more;
                         if (again) term.in_o = term.in_l = 2;
                       }
                     }});
  }
}

/// A split that O, or O and l, lack or have twice.
void add_counts(const Splits& splits, std::int64_t tile, Flaws& flaws) {
  for (std::int64_t split = 0; split < splits.count; ++split) {
    // Of ranges as short as tiles the flaws of keys have it.
    if (!splits.by_turns && splits.keys <= tile) continue;
    const auto is_of = [=, keys = splits.part_keys()](const Term& term) {
      return keys.of(static_cast<std::size_t>(term.key)) == static_cast<std::size_t>(split);
    };
    flaws.push_back({Cause::contribution_missing, Stage::combine,
                     "in which O lacks split " + std::to_string(split) + " of " + splits.text, 2,
                     [=](RowPlan& plan) {
                       for (Term& term : plan.terms) {
                         if (is_of(term)) term.in_o = 0;
                       }
                     }});
    for (const bool twice : {false, true}) {
      flaws.push_back({twice ? Cause::contribution_repeated : Cause::contribution_missing,
                       Stage::combine,
                       (twice ? "in which split " : "without split ") + std::to_string(split) +
                           " of " + splits.text + (twice ? " counts twice" : ""),
                       2, [=](RowPlan& plan) {
                         for (Term& term : plan.terms) {
                           if (!is_of(term)) continue;
                           term.in_o = term.in_l = twice ? 2 : 0;
                         }
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

/// Parts that should take tiles by turns, and take all from their first on.
void add_missed_turns(const Splits& splits, Flaws& flaws) {
  flaws.push_back({Cause::contribution_repeated, Stage::qk,
                   "in which each of " + splits.text + " goes on with what the next one takes, too",
                   1, [=](RowPlan& plan) {
                     for (std::size_t i = 0; i < plan.terms.size(); ++i) {
                       const auto range = static_cast<std::int64_t>(i) / splits.keys;
                       Term& term = plan.terms[i];
                       term.in_o = term.in_l =
                           static_cast<double>(std::min(range + 1, splits.count));
                     }
                   }});
}

/// What is wrong within splits, each of which has a maximum of its own; they are put together
/// rightly.
void add_rules_within(const Splits& splits, Flaws& flaws) {
  constexpr double log2e = std::numbers::log2e, ln2 = std::numbers::ln2;
  struct Rule {
    Cause cause;
    Stage stage;
    const char* what;
    PartRules rules;
  };
  const Rule all[] = {
      {Cause::wrong_base, Stage::softmax, "P is 2^(s - m) of scores in base e", {ln2, 1, 1}},
      {Cause::wrong_base, Stage::softmax, "P is e^(s - m) of scores in base 2", {log2e, 1, 1}},
      {Cause::wrong_base,
       Stage::softmax,
       "P is 2^(s - m) of scores in base e, and alpha likewise",
       {ln2, ln2, ln2}},
      {Cause::wrong_base,
       Stage::softmax,
       "P is e^(s - m) of scores in base 2, and alpha likewise",
       {log2e, log2e, log2e}},
      {Cause::not_rescaled, Stage::softmax, "O and l are not rescaled by alpha", {1, 0, 0}},
      {Cause::not_rescaled, Stage::pv, "O is not rescaled by alpha", {1, 0, 1}},
      {Cause::not_rescaled, Stage::softmax, "l is not rescaled by alpha", {1, 1, 0}},
      {Cause::rescaled_twice, Stage::softmax, "O and l are rescaled by alpha twice", {1, 2, 2}},
      {Cause::rescaled_twice, Stage::pv, "O is rescaled by alpha twice", {1, 2, 1}},
      {Cause::rescaled_twice, Stage::softmax, "l is rescaled by alpha twice", {1, 1, 2}},
      {Cause::wrong_base, Stage::softmax, "alpha is 2^x in the place of e^x", {1, ln2, ln2}},
      {Cause::wrong_base, Stage::softmax, "alpha is e^x in the place of 2^x", {1, log2e, log2e}},
  };
  for (const auto& [cause, stage, what, rules] : all) {
    flaws.push_back({cause, stage, "in which " + std::string(what) + " in each of " + splits.text,
                     1, [=, rules = rules](RowPlan& plan) {
                       plan.part_keys = splits.part_keys();
                       plan.part_rules = rules;
                     }});
  }
}

}  // namespace

void add_flaws_of_splits(const DumpInfo& info, Flaws& flaws) {
  for (const Splits& splits : splits_of(info)) {
    add_weights(splits, flaws);
    add_powers(splits, flaws);
    add_reductions(splits, flaws);
    add_rules_within(splits, flaws);
    add_counts(splits, info.bc, flaws);
    add_places(info, splits, flaws);
    if (splits.by_turns) {
      add_missed_turns(splits, flaws);
    } else {
      add_shares(splits, info.bc, flaws);
    }
  }
  // Of fewer keys a kernel makes a single one.
  const Splits one{1, info.problem.len_kv, "1 splits of the keys"};
  add_rules_within(one, flaws);
  add_counts(one, 0, flaws);
  add_remainders(info, flaws);
}

}  // namespace lanescope

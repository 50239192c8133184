#include <algorithm>
#include <numbers>
#include <set>
#include <string>
#include <utility>

#include "debug/causes/flaw_families.h"
#include "debug/causes/splits.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// Parts of whole tiles, of as many keys as make all of them the same, and of as many as whoever
/// splits fixes, the last one shorter.
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
  for (const std::int64_t keys : {64, 128, 256}) {
    const std::int64_t count = (len + keys - 1) / keys;
    const bool is_known = std::ranges::any_of(all, [&](const Splits& splits) {
      return splits.count == count && splits.keys == keys && !splits.by_turns;
    });
    if (is_known || count < 2 || count > 16) continue;
    all.push_back({count, keys,
                   std::to_string(count) + " splits of the keys (" + keys_text(keys) + " each)"});
  }
  return all;
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
      {Cause::rescaled_twice,
       Stage::softmax,
       "O and l are rescaled together with this tile's share",
       {1, 1, 1, true, true}},
      {Cause::rescaled_twice,
       Stage::pv,
       "O is rescaled together with this tile's share",
       {1, 1, 1, true, false}},
      {Cause::rescaled_twice,
       Stage::softmax,
       "l is rescaled together with this tile's share",
       {1, 1, 1, false, true}},
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
    add_flaws_of_merges(info, splits, flaws);
    add_rules_within(splits, flaws);
    add_counts(splits, info.bc, flaws);
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
  add_merges_of_log_sums(one, flaws);
  add_remainders(info, flaws);
}

}  // namespace lanescope

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// How O and l are brought to the next tile's maximum, and what that is called.
struct Rule {
  Rescale rule;
  Cause cause;
  std::string what;
  double power = 1;  ///< of alpha
};

std::vector<Rule> rescale_rules(const DumpInfo& info) {
  const double root = std::sqrt(static_cast<double>(info.problem.d));
  return {
      {Rescale::power, Cause::not_rescaled, "not rescaled by alpha", 0},
      {Rescale::power, Cause::rescaled_twice, "rescaled by alpha twice", 2},
      {Rescale::power, Cause::wrong_base, "rescaled by 2^x in the place of e^x", std::numbers::ln2},
      {Rescale::power, Cause::wrong_base, "rescaled by e^x in the place of 2^x",
       std::numbers::log2e},
      {Rescale::power, Cause::wrong_formula, "rescaled by the square root of alpha", 0.5},
      {Rescale::power, Cause::wrong_formula, "divided by alpha: the maxima are exchanged", -1},
      {Rescale::power, Cause::wrong_scale, "rescaled by alpha of scores without their scale", root},
      {Rescale::power, Cause::wrong_scale, "rescaled by 2^x of scores without their scale",
       root * std::numbers::ln2},
      {Rescale::power, Cause::wrong_scale, "rescaled by alpha of scores that are scaled twice",
       1 / root},
      {Rescale::all, Cause::rescaled_twice, "rescaled together with this tile's share"},
      {Rescale::doubled, Cause::contribution_repeated,
       "counted twice at each later tile: the sum itself is reduced, over two lanes"},
      {Rescale::fourfold, Cause::contribution_repeated,
       "counted four times at each later tile: the sum itself is reduced, over four lanes"},
      {Rescale::swapped, Cause::wrong_formula, "left as they are, alpha on this tile's share"},
      {Rescale::restart, Cause::accumulator_lost, "that of the last tile alone"},
      {Rescale::own_peak, Cause::wrong_formula,
       "summed from p relative to the maximum of its own tile"},
      {Rescale::late, Cause::stale_operand, "rescaled by alpha of the tile before"},
      {Rescale::early, Cause::stale_operand, "rescaled by alpha of the next tile"},
  };
}

/// How a kernel goes over its keys: tiles of a size, upwards or downwards.
struct Way {
  std::int64_t bc;
  bool downwards;
  std::string text;
  int choices;

  void set(RowPlan& plan) const {
    plan.tiles = rounded_up(plan.tiles * plan.tile, bc) / bc;
    plan.tile = bc;
    plan.downwards = downwards;
  }
};

std::vector<Way> ways_of(const DumpInfo& info) {
  std::vector<std::int64_t> sizes = tile_sizes(info);
  // A key or some at a time, of those of a tile.
  for (const std::int64_t keys : {1, 2, 4, 8}) {
    if (keys < info.bc) sizes.push_back(keys);
  }
  std::vector<Way> ways;
  for (const std::int64_t bc : sizes) {
    for (const bool downwards : {false, true}) {
      if (downwards && (bc >= info.problem.len_kv || (bc < info.bc && bc != 1 && bc < 16)))
        continue;
      ways.push_back(
          {bc, downwards,
           (downwards ? " (tiles from the last to the first)" : "") + size_text(info, bc),
           (bc != info.bc) + downwards});
    }
  }
  return ways;
}

/// The rule in O and l, and in each of them alone; `edit` says in which tiles.
template <class Edit>
void add_rule(const Rule& rule, const Way& way, const std::string& where, int choices, Edit edit,
              Flaws& flaws) {
  for (const int which : {0, 1, 2}) {
    const char* const sums[] = {"O and l are ", "O is ", "l is "};
    // Weights relative to the tile's own maximum come to the same as the other way round where
    // there are two tiles.
    flaws.push_back({rule.cause, which == 1 ? Stage::pv : Stage::softmax,
                     std::string("in which ") + sums[which] + rule.what + where + way.text,
                     way.choices + choices + (rule.rule == Rescale::own_peak && !way.downwards),
                     [=](RowPlan& plan) {
                       way.set(plan);
                       if (which != 2) plan.o_rescale = rule.rule;
                       if (which != 1) plan.l_rescale = rule.rule;
                       plan.alpha_power = rule.power;
                       edit(plan);
                     }});
  }
}

/// Accumulators of the scores that are not cleared: they hold what the tile before left, as it was
/// or with the factors that it got in place.
void add_uncleared_scores(const DumpInfo& info, Flaws& flaws) {
  const double scale = 1 / std::sqrt(static_cast<double>(info.problem.d));
  const std::pair<double, const char*> left[] = {
      {1, ""},
      {scale, ", with their scale"},
      {scale * std::numbers::log2e, ", with their scale, in base 2"}};
  for (const std::int64_t bc : tile_sizes(info)) {
    for (const auto& [factor, text] : left) {
      flaws.push_back({Cause::accumulator_not_cleared, Stage::qk,
                       "in which the scores of the tile before are added to those of the next" +
                           std::string(text) + size_text(info, bc),
                       bc != info.bc, [=, factor = factor](RowPlan& plan) {
                         plan.tiles = rounded_up(plan.tiles * plan.tile, bc) / bc;
                         plan.tile = bc;
                         plan.scores_left = factor;
                       }});
    }
  }
}

/// The maximum that a tile leaves is its own, though larger ones came before: the next tile brings
/// to it what is relative to another.
void add_own_peaks(const Way& way, Flaws& flaws) {
  for (const bool own_tiles : {true, false}) {
    flaws.push_back({Cause::stale_operand, Stage::softmax,
                     std::string("in which m after a tile is the tile's own maximum") +
                         (own_tiles ? "" : ", tiles that the row does not see included") + way.text,
                     way.choices + !own_tiles, [=](RowPlan& plan) {
                       way.set(plan);
                       if (own_tiles)
                         plan.tiles = rounded_up(std::ssize(plan.terms), plan.tile) / plan.tile;
                       plan.keeps_own_peak = true;
                     }});
  }
}

/// Powers of another base than the scores are in, whose maximum is right; alpha too, or not.
void add_bases(const DumpInfo& info, Flaws& flaws) {
  constexpr double log2e = std::numbers::log2e, ln2 = std::numbers::ln2;
  const std::pair<double, const char*> bases[] = {{ln2, "2^(s - m) of scores in base e"},
                                                  {log2e, "e^(s - m) of scores in base 2"}};
  for (const std::int64_t bc : tile_sizes(info)) {
    for (const auto& [factor, what] : bases) {
      for (const bool alpha_too : {false, true}) {
        flaws.push_back({Cause::wrong_base, Stage::softmax,
                         std::string("whose P is ") + what +
                             (alpha_too ? ", and alpha likewise" : "") + size_text(info, bc),
                         bc != info.bc, [=, factor = factor](RowPlan& plan) {
                           plan.tiles = rounded_up(plan.tiles * plan.tile, bc) / bc;
                           plan.tile = bc;
                           plan.exponent = factor;
                           plan.o_rescale = plan.l_rescale = Rescale::power;
                           plan.alpha_power = alpha_too ? factor : 1;
                         }});
      }
    }
  }
}

/// O is rescaled within the loop over the parts of a tile, before each of them.
void add_rescales_of_parts(const Way& way, Flaws& flaws) {
  for (const std::int64_t parts : {2, 3, 4, 6, 8}) {
    if (way.bc % parts != 0) continue;
    flaws.push_back({Cause::rescaled_twice, Stage::pv,
                     "in which O is rescaled by alpha before each of " + std::to_string(parts) +
                         " parts of a tile" + way.text,
                     way.choices + 1, [=](RowPlan& plan) {
                       way.set(plan);
                       plan.o_rescale = Rescale::in_parts;
                       plan.alpha_power = static_cast<double>(parts);
                     }});
  }
}

void add_recurrence(const DumpInfo& info, Flaws& flaws) {
  for (const Way& way : ways_of(info)) {
    add_own_peaks(way, flaws);
    add_rescales_of_parts(way, flaws);
    for (const Rule& rule : rescale_rules(info)) {
      add_rule(
          rule, way, "", 0, [](RowPlan&) {}, flaws);
    }
    for (const std::int64_t distance : {1, 2, 4, 8, 16, 32}) {
      if (distance >= info.br) continue;
      flaws.push_back(
          {Cause::operand_of_other_row, Stage::pv,
           "in which O is rescaled by alpha of row i xor " + std::to_string(distance) + way.text,
           1 + way.choices, [=](RowPlan& plan) {
             way.set(plan);
             plan.alpha_row = distance;
           }});
    }
    if (info.br % 16 != 0) continue;
    flaws.push_back(
        {Cause::operand_of_other_row, Stage::pv,
         "in which O is rescaled by alpha of the row 8 further on in odd columns alone, "
         "of its own in even ones (layout of mma.m16n8)" +
             way.text,
         1 + way.choices, [=](RowPlan& plan) {
           way.set(plan);
           take_row_by_column(plan, [](RowPlan& other) { other.alpha_row = 8; });
         }});
  }
}

void add_sums(const DumpInfo& info, Flaws& flaws) {
  if (info.br == info.bc) {
    flaws.push_back({Cause::transposed, Stage::softmax,
                     "in which l is summed over the columns of P, not over its rows", 0,
                     [](RowPlan& plan) { plan.sums_columns = true; }});
  }
  flaws.push_back({Cause::contribution_missing, Stage::softmax,
                   "in which l lacks the last key that a row sees", 1, [](RowPlan& plan) {
                     if (!plan.terms.empty()) plan.terms.back().in_l = 0;
                   }});
  flaws.push_back({Cause::contribution_missing, Stage::softmax, "in which l lacks the first key", 1,
                   [](RowPlan& plan) {
                     if (!plan.terms.empty()) plan.terms.front().in_l = 0;
                   }});
  const std::pair<SumOver, const char*> lanes[] = {
      {SumOver::own_lane, "the columns of one lane of four"},
      {SumOver::lane_and_neighbour, "the columns of lanes i and i xor 1"},
      {SumOver::lane_and_next_pair, "the columns of lanes i and i xor 2"}};
  for (const auto& [over, what] : lanes) {
    flaws.push_back(
        {Cause::incomplete_reduction, Stage::softmax,
         std::string("in which l is summed over ") + what + " alone (layout of mma.m16n8)", 0,
         [over = over](RowPlan& plan) { plan.sum_over = over; }});
  }
  add_flaws_of_reductions(info, flaws);
  for (const int times : {2, 4, 8, 16, 32}) {
    flaws.push_back({Cause::contribution_repeated, Stage::softmax,
                     "in which l counts every key " + std::to_string(times) + " times", 1,
                     [=](RowPlan& plan) {
                       for (Term& term : plan.terms) term.in_l = times;
                     }});
    flaws.push_back({Cause::contribution_repeated, Stage::pv,
                     "in which O counts every key " + std::to_string(times) + " times", 1,
                     [=](RowPlan& plan) {
                       for (Term& term : plan.terms) term.in_o = times;
                     }});
  }
  const auto d = static_cast<std::size_t>(info.problem.d);
  // Lanes have every n-th column, or n neighbours: a step of their reduction is a bit of its
  // number.
  for (std::size_t bit = 1; 2 * bit < d; bit *= 2) {
    for (const bool set : {true, false}) {
      flaws.push_back({Cause::incomplete_reduction, Stage::qk,
                       "whose q.k lacks the columns " + std::string(set ? "with" : "without") +
                           " the bit " + std::to_string(bit) + " in their number",
                       1, [=](RowPlan& plan) {
                         for (std::size_t i = 0; i < d; ++i) {
                           if (((i & bit) != 0) == set) plan.depth[i] = 0;
                         }
                       }});
    }
  }
  // Components of vectors.
  for (const std::size_t width : {std::size_t{4}, std::size_t{8}}) {
    for (std::size_t own = 0; own < width && width < d; ++own) {
      flaws.push_back({Cause::contribution_missing, Stage::qk,
                       "whose q.k lacks the columns i with i mod " + std::to_string(width) + " = " +
                           std::to_string(own),
                       1, [=](RowPlan& plan) {
                         for (std::size_t i = own; i < d; i += width) plan.depth[i] = 0;
                       }});
    }
  }
  // Lanes that have another key meet in the sum.
  for (const std::int64_t bits : {1, 2, 3, 4, 7, 8, 15, 16}) {
    if (bits >= info.problem.len_kv) continue;
    flaws.push_back({Cause::reduction_too_wide, Stage::qk,
                     "whose scores are sums over the keys whose numbers differ in the bits " +
                         std::to_string(bits),
                     1, [=](RowPlan& plan) { plan.score_keys = bits; }});
  }
  for (const std::size_t step : {std::size_t{16}, d / 2}) {
    if (step == 0 || step >= d) continue;
    for (std::size_t first = 0; first < d; first += step) {
      for (const int times : {0, 2}) {
        flaws.push_back(
            {times == 0 ? Cause::contribution_missing : Cause::contribution_repeated, Stage::qk,
             "whose q.k " + std::string(times == 0 ? "lacks" : "counts twice") + " the columns " +
                 std::to_string(first) + " to " + std::to_string(std::min(first + step, d) - 1),
             2, [=](RowPlan& plan) {
               for (std::size_t i = first; i < std::min(first + step, d); ++i) {
                 plan.depth[i] = times;
               }
             }});
      }
    }
  }
}

}  // namespace

void add_rules_of_tiles(const DumpInfo& info, Flaws& flaws) {
  for (const Way& way : ways_of(info)) {
    if (way.bc != info.bc || way.bc >= info.problem.len_kv) continue;
    for (const Rule& rule : rescale_rules(info)) {
      if (rule.rule == Rescale::late || rule.rule == Rescale::early) continue;
      for (const SomeTiles& some : some_tiles(info)) {
        add_rule(
            rule, way, " in " + some.text + " alone", 1,
            [holds = some.holds](RowPlan& plan) {
              RowPlan place = plan;
              place.terms.clear();
              plan.in_tiles = [=](std::int64_t tile) { return holds(place, tile); };
            },
            flaws);
      }
    }
  }
}

void add_flaws_of_sums(const DumpInfo& info, Flaws& flaws) {
  add_uncleared_scores(info, flaws);
  add_bases(info, flaws);
  add_recurrence(info, flaws);
  add_sums(info, flaws);
}

}  // namespace lanescope

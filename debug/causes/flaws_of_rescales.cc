#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

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
      {Rescale::to_peak, Cause::wrong_formula,
       "rescaled by alpha relative to the maximum of the tile alone"},
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

/// The maximum that a tile leaves is its own, though larger ones came before: the next tile brings
/// to it what is relative to another.
void add_own_peaks(const Way& way, Flaws& flaws) {
  for (const bool own_tiles : {true, false}) {
    flaws.push_back({Cause::wrong_formula, Stage::softmax,
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

/// m stays at the -inf that it starts from, so that every tile's alpha is 0.
void add_maximum_not_kept(const Way& way, Flaws& flaws) {
  flaws.push_back({Cause::never_updated, Stage::softmax,
                   "in which m is never updated: O and l are those of the last tile alone, the "
                   "log-sum-exp is -inf" +
                       way.text,
                   way.choices, [=](RowPlan& plan) {
                     way.set(plan);
                     plan.o_rescale = plan.l_rescale = Rescale::restart;
                     plan.in_lse = 0;
                   }});
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

}  // namespace

void add_flaws_of_rescales(const DumpInfo& info, Flaws& flaws) {
  for (const Way& way : ways_of(info)) {
    add_own_peaks(way, flaws);
    add_maximum_not_kept(way, flaws);
    add_rescales_of_parts(way, flaws);
    for (const Rule& rule : rescale_rules(info)) {
      add_rule(
          rule, way, "", 0, [](RowPlan&) {}, flaws);
    }
    // Of a loop that takes P V of a tile together with the scores of the next, the last is alone.
    add_rule(
        {Rescale::power, Cause::not_rescaled, "not rescaled by alpha", 0}, way,
        " in the last tile alone", 1,
        [](RowPlan& plan) {
          plan.in_tiles = [last = plan.tiles - 1](std::int64_t tile) { return tile == last; };
        },
        flaws);
    for (const std::int64_t distance : {1, 2, 4, 8, 16, 32}) {
      if (distance >= info.br) continue;
      for (const int which : {0, 1, 2}) {
        const char* const sums[] = {"O is", "l is", "O and l are"};
        flaws.push_back({Cause::operand_of_other_row, which == 0 ? Stage::pv : Stage::softmax,
                         std::string("in which ") + sums[which] +
                             " rescaled by alpha of row i xor " + std::to_string(distance) +
                             way.text,
                         1 + way.choices, [=](RowPlan& plan) {
                           way.set(plan);
                           if (which != 1) plan.alpha_row = distance;
                           if (which != 0) plan.alpha_row_of_l = distance;
                         }});
      }
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

}  // namespace lanescope

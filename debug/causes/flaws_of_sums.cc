#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

void add_recurrence(const DumpInfo& info, Flaws& flaws) {
  struct Rule {
    Rescale rule;
    Cause cause;
    const char* what;
  };
  const Rule rules[] = {
      {Rescale::none, Cause::not_rescaled, "not rescaled by alpha"},
      {Rescale::twice, Cause::rescaled_twice, "rescaled by alpha twice"},
      {Rescale::base_two, Cause::wrong_base, "rescaled by 2^x in the place of e^x"},
      {Rescale::base_e, Cause::wrong_base, "rescaled by e^x in the place of 2^x"},
      {Rescale::root, Cause::wrong_formula, "rescaled by the square root of alpha"},
      {Rescale::all, Cause::rescaled_twice, "rescaled together with this tile's share"},
      {Rescale::restart, Cause::accumulator_lost, "that of the last tile alone"},
      {Rescale::own_peak, Cause::wrong_formula,
       "summed from p relative to the maximum of its own tile"},
  };
  for (const std::int64_t bc : tile_sizes(info)) {
    for (const bool downwards : {false, true}) {
      if (downwards && bc >= info.problem.len_kv) continue;
      const std::string how =
          (downwards ? " (tiles from the last to the first)" : "") + size_text(info, bc);
      // Weights relative to the tile's own maximum come to the same as the other way round where
      // there are two tiles.
      const int choices = (bc != info.bc) + downwards;
      const auto walk = [=](RowPlan& plan) {
        plan.tiles = rounded_up(plan.tiles * plan.tile, bc) / bc;
        plan.tile = bc;
        plan.downwards = downwards;
      };
      for (const auto& [rule, cause, what] : rules) {
        for (const int which : {0, 1, 2}) {
          const char* const sums[] = {"O and l are ", "O is ", "l is "};
          flaws.push_back({cause, which == 1 ? Stage::pv : Stage::softmax,
                           std::string("in which ") + sums[which] + what + how,
                           choices + (rule == Rescale::own_peak && !downwards),
                           [=, rule = rule](RowPlan& plan) {
                             walk(plan);
                             if (which != 2) plan.o_rescale = rule;
                             if (which != 1) plan.l_rescale = rule;
                           }});
        }
      }
      for (const std::int64_t distance : {1, 2, 4, 8, 16, 32}) {
        if (distance >= info.br) continue;
        flaws.push_back(
            {Cause::operand_of_other_row, Stage::pv,
             "in which O is rescaled by alpha of row i xor " + std::to_string(distance) + how,
             1 + choices, [=](RowPlan& plan) {
               walk(plan);
               plan.alpha_row = distance;
             }});
      }
    }
  }
}

/// Butterflies over a warp that has a row, a key to a lane, of which the first or the last steps
/// are missing.
void add_reductions(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const std::pair<int, const char*> steps[] = {
      {0x0f, "8 to 1"},  {0x07, "4 to 1"},  {0x03, "2 and 1"},  {0x01, "1"}, {0x00, "none"},
      {0x1e, "16 to 2"}, {0x1c, "16 to 4"}, {0x18, "16 and 8"}, {0x10, "16"}};
  for (const std::int64_t bc :
       info.bc == 32 ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{info.bc, 32}) {
    if (bc % 32 != 0) continue;
    for (const bool side_by_side : {false, true}) {
      if (side_by_side && p.d < 64) continue;
      for (const auto& [distances, text] : steps) {
        for (const int which : {0, 1, 2}) {
          const char* const what[] = {"m and l are", "m is", "l is"};
          LaneReductions lanes{.of_maximum = which == 2 ? 31 : distances,
                               .of_sum = which == 1 ? 31 : distances,
                               .side_by_side = side_by_side};
          flaws.push_back({Cause::incomplete_reduction, Stage::softmax,
                           std::string("in which ") + what[which] +
                               " reduced over a part of a warp's lanes (distances: " + text + ")",
                           1 + (bc != info.bc), [=](RowPlan& plan) {
                             plan.tile = bc;
                             plan.lanes = lanes;
                           }});
        }
      }
    }
  }
}

void add_sums(const DumpInfo& info, Flaws& flaws) {
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
  add_reductions(info, flaws);
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

/// Blocks of their own for parts of the keys, put together wrongly.
void add_splits(const DumpInfo& info, Flaws& flaws) {
  struct Rule {
    Combine rule;
    Cause cause;
    const char* what;
  };
  const Rule rules[] = {
      {Combine::mean, Cause::wrong_formula, "all the same"},
      {Combine::by_maximum, Cause::wrong_formula, "by their maxima alone, without l"},
      {Combine::by_sum, Cause::wrong_formula, "by l of their own maxima"},
  };
  const std::int64_t tiles = (info.problem.len_kv + info.bc - 1) / info.bc;
  for (const std::int64_t splits : {2, 3, 4, 5, 6, 8}) {
    if (splits > tiles) continue;
    const std::int64_t size = (tiles + splits - 1) / splits;
    const std::string text = "the results of " + std::to_string(splits) + " splits of the keys";
    for (const auto& [rule, cause, what] : rules) {
      flaws.push_back({cause, Stage::combine, "in which " + text + " weigh " + what, 1,
                       [=, rule = rule](RowPlan& plan) {
                         plan.combine = rule;
                         plan.part_tiles = size;
                       }});
    }
    if (size == 1) continue;  // a tile's
    for (std::int64_t split = 0; split < splits; ++split) {
      for (const bool twice : {false, true}) {
        flaws.push_back({twice ? Cause::contribution_repeated : Cause::contribution_missing,
                         Stage::combine,
                         (twice ? "in which split " : "without split ") + std::to_string(split) +
                             " of " + std::to_string(splits) + (twice ? " counts twice" : ""),
                         2, [=, bc = info.bc](RowPlan& plan) {
                           for (Term& term : plan.terms) {
                             if (term.key / (size * bc) != split) continue;
                             term.in_o = term.in_l = twice ? 2 : 0;
                           }
                         }});
      }
    }
  }
}

}  // namespace

void add_flaws_of_sums(const DumpInfo& info, Flaws& flaws) {
  add_recurrence(info, flaws);
  add_splits(info, flaws);
  add_sums(info, flaws);
}

}  // namespace lanescope

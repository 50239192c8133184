#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

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

/// l that one lane of a quad stores for all four, from a butterfly that lacks a step, or takes one
/// twice (layout of mma.m16n8: a lane has pair c / 2 % 4 of every eight columns).
void add_sums_of_one_lane(const DumpInfo& info, Flaws& flaws) {
  if (info.bc % 8 != 0) return;
  struct Share {
    const char* text;
    std::int64_t lanes;  ///< those whose number has no other bits
    int times;
  };
  const Share shares[] = {{"lane 0", 0, 1},
                          {"lanes 0 and 1", 1, 1},
                          {"lanes 0 and 2", 2, 1},
                          {"lanes 0 and 1, twice", 1, 2},
                          {"lanes 0 and 2, twice", 2, 2}};
  for (const auto& [text, lanes, times] : shares) {
    flaws.push_back(
        {Cause::incomplete_reduction, Stage::softmax,
         std::string("in which all take the l of ") + text + " of four (layout of mma.m16n8)", 1,
         [=, lanes = lanes, times = times](RowPlan& plan) {
           for (Term& term : plan.terms) {
             const std::int64_t lane = term.key / 2 % 4;
             term.in_l = (lane & ~lanes) == 0 ? times : 0;
           }
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
  // The product with V ends, or begins, a key off, and l does not.
  flaws.push_back({Cause::contribution_missing, Stage::pv,
                   "in which O lacks the last key that a row sees", 1, [](RowPlan& plan) {
                     if (!plan.terms.empty()) plan.terms.back().in_o = 0;
                   }});
  flaws.push_back({Cause::contribution_missing, Stage::pv, "in which O lacks the first key", 1,
                   [](RowPlan& plan) {
                     if (!plan.terms.empty()) plan.terms.front().in_o = 0;
                   }});
  add_sums_of_one_lane(info, flaws);
  const std::pair<SumOver, const char*> lanes[] = {
      {SumOver::own_lane, "the columns of one lane of four"},
      {SumOver::lane_and_neighbour, "the columns of lanes i and i xor 1"},
      {SumOver::lane_and_next_pair, "the columns of lanes i and i xor 2"}};
  for (const auto& [over, what] : lanes) {
    flaws.push_back(
        {Cause::incomplete_reduction, Stage::softmax,
         std::string("in which l is summed over ") + what + " alone (layout of mma.m16n8)", 0,
         [over = over](RowPlan& plan) { plan.sum_over = over; }});
    if (over == SumOver::own_lane) continue;
    flaws.push_back({Cause::incomplete_reduction, Stage::softmax,
                     std::string("in which l is summed over ") + what +
                         " twice, over no others (layout of mma.m16n8)",
                     1, [over = over](RowPlan& plan) {
                       plan.sum_over = over;
                       for (Term& term : plan.terms) term.in_l = 2;
                     }});
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
  for (const std::size_t step : std::set<std::size_t>{16, d / 2}) {
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

void add_flaws_of_sums(const DumpInfo& info, Flaws& flaws) {
  add_uncleared_scores(info, flaws);
  add_bases(info, flaws);
  add_flaws_of_rescales(info, flaws);
  add_sums(info, flaws);
}

}  // namespace lanescope

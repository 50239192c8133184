#include <string>
#include <utility>
#include <vector>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// Butterflies over a warp that has a row, a key to a lane, of which the first or the last steps
/// are missing.
void add_reductions_of_lanes(const DumpInfo& info, Flaws& flaws) {
  const Problem p = info.problem;
  const std::pair<int, const char*> steps[] = {
      {0x0f, "8 to 1"},  {0x07, "4 to 1"},  {0x03, "2 and 1"},  {0x01, "1"}, {0x00, "none"},
      {0x1e, "16 to 2"}, {0x1c, "16 to 4"}, {0x18, "16 and 8"}, {0x10, "16"}};
  for (const std::int64_t bc :
       info.bc == 32 ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{info.bc, 32}) {
    if (bc % 32 != 0) continue;
    for (const bool side_by_side : {false, true}) {
      if (side_by_side && p.d < 64) continue;
      const std::string lanes_text =
          (side_by_side ? "; a lane has neighbouring columns of O" : "") + size_text(info, bc);
      flaws.push_back({Cause::wrong_source, Stage::pv,
                       "in which a lane multiplies every row of V with the weight of its own key "
                       "(a broadcast is missing)" +
                           lanes_text,
                       1 + (bc != info.bc), [=](RowPlan& plan) {
                         plan.tile = bc;
                         plan.lanes = {.side_by_side = side_by_side, .own_weights = true};
                       }});
      // After the last tile it comes to the same, but for roundings.
      flaws.push_back({Cause::incomplete_reduction, Stage::softmax,
                       "in which lanes divide by what shuffles down left in them of l, which only "
                       "the first lane has whole" +
                           lanes_text,
                       1 + (bc != info.bc), [=](RowPlan& plan) {
                         plan.tile = bc;
                         plan.lanes = {.side_by_side = side_by_side, .sums_down = true};
                       }});
      for (const auto& [distances, text] : steps) {
        for (const int which : {0, 1, 2}) {
          const char* const what[] = {"m and l are", "m is", "l is"};
          LaneReductions lanes{.of_maximum = which == 2 ? 31 : distances,
                               .of_sum = which == 1 ? 31 : distances,
                               .side_by_side = side_by_side};
          flaws.push_back({Cause::incomplete_reduction, Stage::softmax,
                           std::string("in which ") + what[which] +
                               " reduced over a part of a warp's lanes (distances: " + text + ")" +
                               lanes_text,
                           1 + (bc != info.bc), [=](RowPlan& plan) {
                             plan.tile = bc;
                             plan.lanes = lanes;
                           }});
        }
      }
    }
  }
}

/// Threads of a block that take the keys in turns, and put together the sums of some warps alone.
void add_reductions_of_warps(const DumpInfo& info, Flaws& flaws) {
  for (std::int64_t bit = 32; bit <= 512 && bit < info.problem.len_kv; bit *= 2) {
    for (const bool set : {false, true}) {
      flaws.push_back({Cause::incomplete_reduction, Stage::softmax,
                       "in which l is summed over the warps alone whose keys have " +
                           std::string(set ? "the" : "not the") + " bit " + std::to_string(bit) +
                           " in their number",
                       0, [=](RowPlan& plan) {
                         for (Term& term : plan.terms) {
                           if (((term.key & bit) != 0) != set) term.in_l = 0;
                         }
                       }});
    }
  }
}

/// Lanes of a quad in the layout of mma.m16n8 that do not agree on m; and butterflies that take in
/// the lanes of other rows.
void add_rows_of_lanes(const DumpInfo& info, Flaws& flaws) {
  const std::pair<int, const char*> steps[] = {
      {1, "i and i xor 1"}, {2, "i and i xor 2"}, {0, "i"}};
  for (const auto& [distances, lanes] : steps) {
    for (const bool downwards : {false, true}) {
      if (downwards && info.bc >= info.problem.len_kv) continue;
      for (const bool at_end : {false, true}) {
        flaws.push_back(
            {Cause::incomplete_reduction, Stage::softmax,
             std::string("in which m is taken over the columns of lane ") + lanes +
                 " alone (layout of mma.m16n8)" +
                 (at_end ? ", l put together after the last tile" : "") +
                 (downwards ? " (tiles from the last to the first)" : ""),
             at_end + downwards, [=, distances = distances](RowPlan& plan) {
               plan.downwards = downwards;
               plan.lanes = {
                   .lanes = 4, .of_maximum = distances, .of_sum = 3, .sums_at_end = at_end};
             }});
      }
    }
  }
  for (const std::int64_t bits : {1, 2, 3, 4, 7, 8, 15, 16, 31}) {
    if (bits >= info.br) continue;
    for (const bool at_end : {false, true}) {
      flaws.push_back({Cause::reduction_too_wide, Stage::softmax,
                       "in which l takes in the rows that differ in the bits " +
                           std::to_string(bits) + " of their number" +
                           (at_end ? ", after the last tile" : ""),
                       1, [=](RowPlan& plan) {
                         plan.sum_rows = bits;
                         plan.sums_rows_at_end = at_end;
                       }});
    }
  }
}

/// A lane has several rows, one after the other, and does not clear its sum between two of them.
/// The lanes of a row have reduced it by then, so that each adds the whole.
void add_sums_not_cleared(const DumpInfo& info, Flaws& flaws) {
  for (const std::int64_t bit : {1, 2, 4, 8, 16, 32}) {
    if (bit >= info.br) continue;
    for (const int lanes : {1, 2, 4, 8, 16, 32}) {
      for (const bool at_end : {false, true}) {
        flaws.push_back({Cause::accumulator_not_cleared, Stage::softmax,
                         "in which l of the rows whose bit " + std::to_string(bit) +
                             " is set begins with that of row i - " + std::to_string(bit) +
                             (lanes > 1 ? ", in each of " + std::to_string(lanes) + " lanes" : "") +
                             (at_end ? ", after the last tile" : ""),
                         2, [=](RowPlan& plan) {
                           if ((plan.query & bit) == 0) return;
                           plan.sum_rows = bit;
                           plan.sum_rows_times = lanes;
                           plan.sums_rows_at_end = at_end;
                         }});
      }
    }
  }
}

}  // namespace

void add_flaws_of_reductions(const DumpInfo& info, Flaws& flaws) {
  add_reductions_of_lanes(info, flaws);
  add_reductions_of_warps(info, flaws);
  add_rows_of_lanes(info, flaws);
  add_sums_not_cleared(info, flaws);
}

}  // namespace lanescope

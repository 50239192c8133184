#include <cstdint>
#include <string>
#include <vector>

#include "debug/causes/flaw_families.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

/// Keys or columns in the order of another fragment's lanes.
struct LaneOrder {
  std::string text;
  std::int64_t group;  ///< in how many of them it holds
  std::int64_t (*of)(std::int64_t i);
};

/// A lane t of four holds elements 2 t and 2 t + 1 of eight of an accumulator; of an operand of
/// m16n8k8, t and t + 4; of one of m16n8k16, two pairs that are eight apart (PTX ISA).
std::vector<LaneOrder> lane_orders() {
  return {
      {"t and t + 4 of every 8 for 2 t and 2 t + 1", 8,
       [](std::int64_t i) { return (i & ~7) + i % 8 / 2 + i % 2 * 4; }},
      {"2 t and 2 t + 1 of every 8 for t and t + 4", 8,
       [](std::int64_t i) { return (i & ~7) + i % 4 * 2 + i % 8 / 4; }},
      {"pairs t and t + 4 of every 8 for 2 t and 2 t + 1", 16,
       [](std::int64_t i) { return (i & ~15) + i % 16 / 4 * 2 + i % 4 / 2 * 8 + i % 2; }},
      {"pairs 2 t and 2 t + 1 of every 8 for t and t + 4", 16,
       [](std::int64_t i) { return (i & ~15) + i % 8 / 2 * 4 + i % 16 / 8 * 2 + i % 2; }},
  };
}

std::string of_lanes(const std::string& what, const LaneOrder& order) {
  return what + order.text + " (another fragment's lanes)";
}

/// Masks, of the end of the sequence too, that count the keys in such an order.
void add_masks(const DumpInfo& info, const LaneOrder& order, Flaws& flaws) {
  const Problem p = info.problem;
  flaws.push_back({Cause::mask_misaligned, Stage::qk,
                   of_lanes("whose masks take the keys of a lane to be ", order), 1,
                   [=, of = order.of](RowPlan& plan) {
                     const std::int64_t seen = std::ssize(plan.terms);
                     plan.terms.clear();
                     for (std::int64_t key = 0; key < plan.tiles * plan.tile; ++key) {
                       const std::int64_t row = key < p.len_kv ? key : -1;
                       plan.terms.push_back({.key = row,
                                             .value = row,
                                             .masked_score = -reference::infinity,
                                             .is_masked = of(key) >= seen});
                     }
                   }});
}

/// Rows and columns of the operands.
void add_operands(const DumpInfo& info, const LaneOrder& order, Flaws& flaws) {
  const auto add = [&](Stage stage, const std::string& what, auto edit) {
    flaws.push_back(
        {Cause::permuted, stage, of_lanes("in which a lane takes " + what, order), 1, edit});
  };
  const TileMap rows = [of = order.of](std::int64_t row, std::int64_t col) {
    return ElementPlace{of(row), col};
  };
  const TileMap columns = [of = order.of](std::int64_t row, std::int64_t col) {
    return ElementPlace{row, of(col)};
  };
  if (info.bc % order.group == 0) {
    add(Stage::pv, "rows of V ", [=](RowPlan& plan) { plan.v_from = rows; });
    add(Stage::qk, "rows of K ", [=](RowPlan& plan) { plan.k_from = rows; });
  }
  if (info.problem.d % order.group == 0) {
    add(Stage::qk, "columns of K ", [=](RowPlan& plan) { plan.k_from = columns; });
    add(Stage::pv, "columns of V ", [=](RowPlan& plan) { plan.v_from = columns; });
    flaws.push_back({Cause::permuted, Stage::epilogue,
                     of_lanes("whose columns of O are stored as ", order), 0,
                     [of = order.of](RowPlan& plan) { plan.o_column = of; }});
  }
}

/// Vectors of columns of K that meet those of Q in another order: a lane has neighbouring vectors
/// of one, and every so manyth of the other.
void add_vectors(const DumpInfo& info, Flaws& flaws) {
  for (const std::int64_t vector : {2, 4, 8}) {
    const std::int64_t count = info.problem.d / vector;
    if (info.problem.d % vector != 0) continue;
    for (std::int64_t width = 2; width < count; ++width) {
      if (count % width != 0) continue;
      const std::string number = std::to_string(width);
      flaws.push_back({Cause::permuted, Stage::qk,
                       "in which vector i mod " + number + " * " + std::to_string(count / width) +
                           " + i / " + number + " of K meets vector i of Q (" +
                           std::to_string(vector) + " columns each)",
                       2, [=](RowPlan& plan) {
                         plan.k_from = [=](std::int64_t row, std::int64_t col) {
                           const std::int64_t i = col / vector;
                           const std::int64_t from = i % width * (count / width) + i / width;
                           return ElementPlace{row, from * vector + col % vector};
                         };
                       }});
    }
  }
}

}  // namespace

void add_flaws_of_lanes(const DumpInfo& info, Flaws& flaws) {
  for (const LaneOrder& order : lane_orders()) {
    if (info.bc % order.group == 0) add_masks(info, order, flaws);
    add_operands(info, order, flaws);
  }
  add_vectors(info, flaws);
}

}  // namespace lanescope

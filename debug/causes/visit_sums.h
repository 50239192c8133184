#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "debug/causes/row_sums.h"

namespace lanescope {

/// What the terms of a row add to O and l, visit by visit, by the rules of its plan. All is brought
/// to the last maximum.
class PlanInputs::VisitSums {
 public:
  VisitSums(PlanInputs& inputs, const RowPlan& plan, const Walk& own);

  struct Shares {
    double in_o, in_l;
  };
  Shares shares_of(std::size_t term);

  // What l has of other rows of the block.

  double l_of_other_rows();
  /// Of the keys whose column of their tile has the row's number: l is summed up by columns.
  double l_of_column();

 private:
  /// How a sum goes from visit to visit.
  struct Rules {
    std::vector<Rescale> at;
    std::vector<double> carried;  ///< what a visit's share comes to until the last one
  };
  Rules rules_of(Rescale rule) const;
  bool holds_at(std::size_t visited) const {
    return plan_.holds_in(static_cast<std::int64_t>(own_.visit(visited)));
  }

  double share_by(const Rules& rules, double share, std::size_t term) const;
  /// Rescaled by the factors of another row of the block.
  double share_by_row(std::int64_t in_tile, std::size_t term);
  /// P of another place of the tile.
  double share_from_elsewhere(std::size_t term);
  const Walk& row(std::int64_t in_tile);

  PlanInputs& inputs_;
  const RowPlan& plan_;
  const Walk& own_;
  const std::int64_t in_tile_;
  std::vector<double> alphas_;
  Rules o_, l_;
  std::map<std::int64_t, Walk> others_;  ///< rows of the block that were asked for
};

}  // namespace lanescope

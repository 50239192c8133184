#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gates/sweep/cell.h"

namespace lanescope {

/// One bit per cell.
using CellSet = std::vector<std::uint64_t>;

std::int64_t count(const CellSet& set);
CellSet both(const CellSet& a, const CellSet& b);
CellSet without(const CellSet& a, const CellSet& b);

/// Something that holds of some cells: a comparison of one of their numbers, or one of their names.
struct Condition {
  std::string text;  ///< "skv >= 513"
  double bits = 0;   ///< what it costs to say it: the logarithm of how many alike there are
  CellSet holds;
};

/// All conditions that hold of some of `cells` and not of all; of several that hold of the same
/// cells, the one that costs least.
std::vector<Condition> conditions_on(const std::vector<Cell>& cells);

}  // namespace lanescope

#pragma once

#include <functional>
#include <vector>

#include "gates/sweep/draw.h"
#include "gates/sweep/result.h"

namespace lanescope {

/// Runs cells, and returns how they fared, in their order.
using Trial = std::function<std::vector<CellResult>(const std::vector<Cell>&)>;

/// The smallest cell, side by side and again until nothing gets smaller, that fails in the same way
/// (CellResult::way) as `failing`, of those that the plan's space allows: plain inputs and first
/// types and tiles where they fail too, then each side as small as it fails, to the one.
CellResult shrink(const CellResult& failing, const DrawPlan& plan, const Trial& trial);

}  // namespace lanescope

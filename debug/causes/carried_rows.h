#pragma once

#include <optional>
#include <vector>

#include "debug/causes/output_rows.h"

namespace lanescope {

/// Outputs that go on from those of a row so many before, the same number for all: a block that
/// takes several items does not set m and l, or O, anew for each; or leaves what was there where an
/// item has no keys. Nothing where that does not give every wrong row of `rows`, or the kernel
/// stores no log-sum-exp.
std::optional<Finding> carried_over(const Dump& dump, PlanInputs& inputs,
                                    const std::vector<OutputRow>& rows);

}  // namespace lanescope

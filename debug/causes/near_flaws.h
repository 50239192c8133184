#pragma once

#include <optional>
#include <vector>

#include "debug/causes/causes.h"
#include "debug/causes/flaw_trial.h"
#include "debug/causes/known_flaws.h"

namespace lanescope {

/// Which rounding, or limit of a narrow type, comes nearest to outputs that are off by little: the
/// last bits of sums in another order keep it from giving them all. Nothing where none leaves less
/// than `share` of what they are off.
std::optional<Finding> nearest_rounding(const std::vector<Flaw>& flaws, double share,
                                        PlanInputs& inputs, const std::vector<OutputRow>& rows);

/// Outputs that are those of another l, of each row its own: O has it, and the log-sum-exp.
std::optional<Finding> other_sum(PlanInputs& inputs, const std::vector<OutputRow>& rows,
                                 std::int64_t splits);

}  // namespace lanescope

#pragma once

#include <vector>

#include "gates/run/locate.h"
#include "gates/run/locate_numbers.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Names what is wrong with how a kernel without markers puts its outputs together
/// (gates/run/judge_terms.h), or which of its numbers are wrong first (gates/run/judge_numbers.h),
/// where that says more than what `location` names. `failed`: problems whose outputs are wrong;
/// `right`: some whose outputs are not.
void tell_terms(const std::vector<RunOptions>& failed, const std::vector<RunOptions>& right,
                const SeenWays& seen, Location& location);

}  // namespace lanescope

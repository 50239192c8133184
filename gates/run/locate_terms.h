#pragma once

#include <vector>

#include "gates/run/locate.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Names what is wrong with how a kernel without markers puts its outputs together
/// (gates/run/judge_terms.h), or which of its numbers are wrong first (gates/run/judge_numbers.h),
/// where that says more than what `location` names. `failed`: problems whose outputs are wrong;
/// `right`: some whose outputs are not. `lacks_rows`: of K, V or Q there are rows that nobody reads
/// for the wrong ones.
void tell_terms(const std::vector<RunOptions>& failed, const std::vector<RunOptions>& right,
                bool lacks_rows, Location& location);

}  // namespace lanescope

#pragma once

#include <vector>

#include "debug/report/locate_report.h"
#include "gates/run/locate_plan.h"
#include "gates/run/run_options.h"

// Problems that tell how a kernel without markers puts its outputs together.
namespace lanescope {

/// Those that failed, `all_failed`, what `failed` is like first; and since one alone may have been
/// needed to find the fault, others of the plan that may fail.
std::vector<RunOptions> wrong_problems(const RunOptions& given, const RunOptions& failed,
                                       std::vector<RunOptions> all_failed,
                                       const std::vector<Probe>& probes, const Location& location);

/// Those of the plan whose outputs are right, with the most keys first.
std::vector<RunOptions> right_problems(const std::vector<Probe>& probes, const Location& location);

}  // namespace lanescope

#pragma once

#include <vector>

#include "debug/report/locate_report.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Of a kernel that shows its outputs alone, which are wrong in `failed`: how far its numbers were
/// right on the way (gates/run/sightings.h), in the first of these problems in which that can be
/// seen, is added to the evidence. What was seen has the word on the stage: of a known flaw, the
/// outputs alone say it by what such bugs mostly are. True: rows of Q, K or V that wrong rows need
/// were read by nobody.
bool tell_numbers(const std::vector<RunOptions>& failed, Location& location);

}  // namespace lanescope

#pragma once

#include "debug/report/locate_report.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Runs the gate of the stage that `location` blames on the problem that failed, to say whether the
/// stage fails alone as well; with a combine pass, that one too. After a crash or a hang, every
/// gate: the first that does not end has the stage. Adds the runs and what they show to `location`.
void confirm_stage(const RunOptions& failed, bool combines, Location& location);

}  // namespace lanescope

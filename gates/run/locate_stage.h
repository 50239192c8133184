#pragma once

#include <vector>

#include "debug/report/locate_report.h"
#include "gates/run/locate_plan.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Runs the gate of the stage that `location` blames on the problem that failed, to say whether the
/// stage fails alone as well; with a combine pass, that one too. After a crash or a hang, every
/// gate: the first that does not end has the stage. Adds the runs and what they show to `location`.
void confirm_stage(const RunOptions& failed, bool combines, Location& location);

/// Adds to `location` the faults of other stages than those it names that the problem that failed
/// shows, and those of `probes` that show many: a stage is judged against what it received, so a
/// fault before it is none of its own. Where the stage has a gate, it must fail there, too. Of
/// values that were never written, or are NaN, anything may follow: nothing is looked for then.
void look_for_others(const RunOptions& failed, const std::vector<Probe>& probes,
                     Location& location);

}  // namespace lanescope

#pragma once

#include "debug/report/locate_report.h"
#include "gates/run/locate_plan.h"

namespace lanescope {

/// Runs a probe under the memory checker, on sim; true where that finds the cause: it is one of
/// what values show in the same site or behind it.
bool check_memory(const Probe& probe, Location& location);
/// The same where it is known that the checker finds nothing.
void note_clean(const Probe& probe, Location& location);

/// Where values come down to zeros, those are what nobody wrote, if `check_memory` found a read of
/// that.
void tell_unwritten_read(Location& location);

/// What `check_memory` found of lanes that ran in step: it is named, though not certain, where
/// values alone say nothing, else it is evidence.
void tell_hidden_race(Location& location);

/// Says so where values are wrong on the GPU alone: a copy that no fence keeps behind a read may be
/// why, or the machine code. `failed`: the run that was diagnosed.
void tell_gpu_alone(const RunOptions& failed, Location& location);

}  // namespace lanescope

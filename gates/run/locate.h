#pragma once

#include "debug/report/locate_report.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Finds the stage, site, tile, lane and cause of a fault of `given.kernel` (with its specimen):
/// runs `fused` on small problems, cheapest first, until one diverges whose cause is certain, then
/// the gate of the stage that failed. What `given` says about shape, preset, mask and inputs is
/// tried first, and alone if it diverges. Throws Error as `prepare` and `launch` do.
Location locate(const RunOptions& given);

}  // namespace lanescope

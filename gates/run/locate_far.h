#pragma once

#include "debug/report/locate_report.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Of a kernel that is right in all else: the last head of tensors of more than 2^32 elements, on
/// sim. Adds the run to `location`, and the diagnosis where an index is too narrow; what it could
/// not run, to what was not tried.
void check_far_head(const RunOptions& given, Location& location);

}  // namespace lanescope

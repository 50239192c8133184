#pragma once

#include "debug/report/locate_report.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Where the kernel made its first NaN, as `check_memory` saw it, in place of what values alone
/// suspect; unless another cause is certain. Guards may hide it from the outputs.
void tell_origin(const RunOptions& failed, Location& location);

}  // namespace lanescope

#pragma once

#include "debug/report/check_report.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Runs the module of `options` that is compiled for the memory checker, on sim. Throws Error.
CheckReport check_kernel(RunOptions options);

}  // namespace lanescope

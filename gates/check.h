#pragma once

#include "debug/check_report.h"
#include "gates/run_options.h"

namespace lanescope {

/// Runs the module of `options` that is compiled for the memory checker, on sim. Throws Error.
CheckReport check_kernel(RunOptions options);

}  // namespace lanescope

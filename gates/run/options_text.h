#pragma once

#include <string>

#include "gates/run/run_options.h"

namespace lanescope {

/// "mma fused --shape ... --causal", as on the command line; `problem` is what the shape came to.
std::string options_text(const RunOptions& options, const Problem& problem);
/// The same of the shape that the options name.
std::string options_text(const RunOptions& options);

}  // namespace lanescope

#pragma once

#include <string>

#include "debug/ptx/marker_run.h"
#include "debug/ptx/runtime_entry.h"
#include "debug/ptx/syntax.h"

namespace lanescope::ptx {

/// The text of `module` for a GPU, its markers instructions that store what `run` shows and load
/// what it gives. What ptxas computes of the text as it was, it computes of this one: a sum that it
/// contracts is written as a fused multiply-add, and nothing else is left for it to contract.
/// Throws UsageError for what cannot be rewritten.
std::string rewrite_markers(const Module& module, const MarkerRun& run,
                            const MarkerBuffers& buffers);

}  // namespace lanescope::ptx

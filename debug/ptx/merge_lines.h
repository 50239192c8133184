#pragma once

#include <set>
#include <string>

#include "debug/ptx/term_replay.h"

namespace lanescope::ptx {

/// Lines that put parts of rows together: those of kernels that do and multiply no inputs, and of
/// others those from behind the loop of the last P·V on, if nothing else is compiled for them.
std::set<std::string> merge_lines(const TermReplay& replay);

}  // namespace lanescope::ptx

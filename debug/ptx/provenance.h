#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "debug/ptx/global_memory.h"
#include "debug/ptx/history.h"
#include "debug/ptx/recognise.h"

namespace lanescope::ptx {

/// Goes over what all launches did, and follows which part of attention each number is
/// (ptx/terms.h): through registers, shared and global memory, products and sums. Writes to the
/// lookout's file, in the place of what an earlier launch wrote: which terms the outputs are, which
/// scores were made, and where terms met that do not go together (read_provenance in
/// gates/run/provenance.h).
void follow_terms(const History& history, const GlobalMemory& memory, const Lookout& lookout);

}  // namespace lanescope::ptx

#pragma once

#include <cstdint>
#include <vector>

#include "debug/ptx/syntax.h"

namespace lanescope::ptx {

/// In which stage of attention each statement is that fills shared memory, as far as what it stores
/// says so: `load` where that comes from global memory as it is, scaled or converted, or by an
/// asynchronous copy; `softmax` where it is a power of two. A bit for each Stage as in stages_of
/// (ptx/control_flow.h), 0 of all other statements. For kernels of attention without markers.
std::vector<std::uint8_t> stages_of_stores(const Function& function);

}  // namespace lanescope::ptx

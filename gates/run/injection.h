#pragma once

#include <cstddef>

#include "gates/run/slot_layout.h"
#include "reference/inputs.h"

namespace lanescope {

/// Fills `buffer`, of `layout`, with what a gate takes from the reference (S; P and alpha;
/// partials), rounded as the kernel would hold it. `info` says how the problem is cut into blocks,
/// which are spread over `threads` threads.
void inject(const Module& module, const SlotLayout& layout, const Inputs& inputs,
            const DumpInfo& info, int threads, std::byte* buffer);

}  // namespace lanescope

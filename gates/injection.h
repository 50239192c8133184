#pragma once

#include <cstddef>
#include <vector>

#include "gates/slot_layout.h"
#include "reference/problem.h"

namespace lanescope {

/// What a gate takes from the reference (S, or P and alpha), rounded as the kernel would hold it
/// and laid into its slots: the bytes of a buffer of `layout`. Blocks are spread over `threads`
/// threads.
std::vector<std::byte> inject(const Module& module, const SlotLayout& layout, const Inputs& inputs,
                              const Problem& problem, int threads);

}  // namespace lanescope

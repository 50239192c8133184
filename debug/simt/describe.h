#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "debug/simt/lane.h"

namespace lanescope::simt {

/// "kernels/mma.h:120": the path as the compiler was given it.
std::string describe(Here here);
/// "0-3,7" for the indices of the set bits.
std::string describe_lanes(std::uint32_t lanes);
/// "0xffffffff".
std::string describe_mask(std::uint32_t mask);

}  // namespace lanescope::simt

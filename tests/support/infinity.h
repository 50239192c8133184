#pragma once

#include <limits>

namespace lanescope::testing {

inline constexpr float inf = std::numeric_limits<float>::infinity();

}  // namespace lanescope::testing

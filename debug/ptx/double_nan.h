#pragma once

#include <bit>
#include <cstdint>

namespace lanescope::ptx {

/// A NaN of .f64 as it comes out: quiet, with its sign and what else it says.
inline double quiet(double nan) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(nan) | std::uint64_t{1} << 51);
}
/// What an H200 makes of operands of which one is NaN, or several: the last of those. Of an fma
/// they are a, c, b.
template <class... S>
double of_numbers(double result, S... s) {
  ((result = s != s ? quiet(s) : result), ...);
  return result;
}

}  // namespace lanescope::ptx

// The special functions' unit on doubles: MUFU.RCP64H and MUFU.RSQ64H, which see the upper 32 bits.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

constexpr double nan_of_unit = std::bit_cast<double>(0x7fffffff00000000u);

/// The upper 20 bits of the fraction, as a float's in [1, 2).
float significand_of(double x) {
  const auto fraction = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(x) >> 32 & 0xfffff);
  return std::bit_cast<float>(0x3f800000 | fraction << 3);
}
double upper_word(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) >> 32 << 32);
}
int exponent_of(double x) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff) - 1023;
}
/// x · 2^exponent, cut off to the upper 32 bits; flushed where it is subnormal.
double upper_half(float x, int exponent) {
  const double scaled = std::ldexp(static_cast<double>(x), exponent);
  if (scaled < std::numeric_limits<double>::min()) return 0;
  return upper_word(scaled);
}

}  // namespace

double rcp(double of) {
  const double x = upper_word(of);
  if (std::isnan(x)) return nan_of_unit;
  const double sign = std::copysign(1.0, x);
  if (std::isinf(x)) return std::copysign(0.0, sign);
  if (exponent_of(x) == -1023) return sign * std::numeric_limits<double>::infinity();
  return sign * upper_half(rcp(significand_of(x)), -exponent_of(x));
}

double rsqrt(double of) {
  const double x = upper_word(of);
  if (std::isnan(x)) return nan_of_unit;
  const int exponent = exponent_of(x);
  if (exponent == -1023) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (x < 0) return nan_of_unit;
  if (std::isinf(x)) return 0;
  const float scale = (exponent & 1) != 0 ? 2.0f : 1.0f;
  return upper_half(rsqrt(significand_of(x) * scale), -(exponent >> 1));
}

}  // namespace lanescope::simt

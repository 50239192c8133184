#include <cmath>
#include <cstdint>

#include "debug/simt/branch_free.h"
#include "debug/simt/numerics.h"

namespace lanescope::simt {

std::uint16_t f32_to_f16(float x) { return branch_free::f32_to_f16(x); }
std::uint16_t f32_to_bf16(float x) { return branch_free::f32_to_bf16(x); }
float f16_to_f32(std::uint16_t bits) { return branch_free::f16_to_f32(bits); }

std::uint8_t f32_to_e4m3(float x) {
  if (std::isnan(x)) return 0x7f;
  const std::uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const float magnitude = std::fmin(std::fabs(x), 512.0F);
  // In units of the last place, whose exponent is that of the subnormals or more: below 2^4.
  const int exponent = magnitude < 0x1p-6F ? -6 : std::ilogb(magnitude);
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  const int bits = units + (exponent + 6) * 8;  // 2^4 of them carry into the exponent
  return static_cast<std::uint8_t>(sign | (bits < 0x7e ? bits : 0x7e));
}

std::uint16_t e4m3_to_f16(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  if (exponent == 15 && fraction == 7) return 0x7fff;
  // Subnormal: fraction/8 · 2^-6, normal: (1 + fraction/8) · 2^(exponent - 7).
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -9)
                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return f32_to_f16(bits & 0x80 ? -magnitude : magnitude);
}

}  // namespace lanescope::simt

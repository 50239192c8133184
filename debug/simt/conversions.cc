#include <bit>
#include <cmath>
#include <cstdint>

#include "debug/simt/numerics.h"

namespace lanescope::simt {

std::uint16_t f32_to_f16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds past 65504
  if (magnitude < 0x38800000) {
    // Below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000));
  }
  const std::uint32_t even = magnitude >> 13 & 1;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + even) >> 13));
}

std::uint16_t f32_to_bf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | magnitude << 13);
  // Scaling by 2^112 moves the exponent from binary16's place and normalises subnormals.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
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

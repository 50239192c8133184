// The product of e4m3 numbers as a Hopper's wgmma computes it.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

constexpr int kept_bits = 13;  // fraction bits of terms and of the result

/// value = significand · 2^(exponent − 3).
struct Byte {
  int significand, exponent;
  bool is_nan;
};
Byte split_byte(std::uint8_t bits) {
  const int biased = bits >> 3 & 15, magnitude = (bits & 7) | (biased != 0 ? 8 : 0);
  return {bits >> 7 ? -magnitude : magnitude, (biased == 0 ? 1 : biased) - 7,
          (bits & 0x7f) == 0x7f};
}

/// x · 2^by, truncated toward zero to a whole number.
std::int64_t shifted(std::int64_t x, int by) {
  if (by >= 0) return x << by;
  const std::int64_t size = by < -62 ? 0 : (x < 0 ? -x : x) >> -by;
  return x < 0 ? -size : size;
}

float add_row(const std::uint8_t* a, const std::uint8_t* b, float c) {
  constexpr int none = -4096;
  const int count = 32;
  int top = none;
  bool is_nan = c != c;
  for (int k = 0; k < count; ++k) {
    const Byte x = split_byte(a[k]), y = split_byte(b[k]);
    is_nan = is_nan || x.is_nan || y.is_nan;
    if (x.significand * y.significand != 0) top = std::max(top, x.exponent + y.exponent);
  }
  if (is_nan) return std::bit_cast<float>(0x7fffffffu);
  if (std::isinf(c)) return c;
  const auto bits = std::bit_cast<std::uint32_t>(c);
  const int biased = static_cast<int>(bits >> 23 & 255);
  const std::int64_t magnitude = (bits & 0x7fffff) | (biased != 0 ? 0x800000 : 0);
  const int exponent = (biased == 0 ? 1 : biased) - 127;
  if (magnitude != 0) top = std::max(top, exponent);
  if (top == none) return 0;
  std::int64_t sum = shifted(bits >> 31 ? -magnitude : magnitude, kept_bits - 23 + exponent - top);
  for (int k = 0; k < count; ++k) {
    const Byte x = split_byte(a[k]), y = split_byte(b[k]);
    const std::int64_t product = std::int64_t{x.significand} * y.significand;
    sum += shifted(product, kept_bits - 6 + x.exponent + y.exponent - top);
  }
  // Of its leading bit and the kept bits behind it.
  const std::uint64_t size = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  const int extra = std::max(0, static_cast<int>(std::bit_width(size)) - 1 - kept_bits);
  const auto cut = static_cast<double>(size >> extra << extra);
  const double result = std::ldexp(sum < 0 ? -cut : cut, top - kept_bits);
  return sum == 0 ? 0.0F : static_cast<float>(result);
}

}  // namespace

void multiply_accumulate_e4m3(const std::uint8_t (&a)[16][32], const std::uint8_t (*b)[32],
                              int count, float (*c)[16]) {
  for (int n = 0; n < count; ++n) {
    for (int i = 0; i < 16; ++i) c[n][i] = add_row(a[i], b[n], c[n][i]);
  }
}

}  // namespace lanescope::simt

// Products of 8-bit floats as a Hopper's wgmma computes them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

constexpr int kept_bits = 13;  // fraction bits of terms, and of an fp32

constexpr int none = -4096;  // the exponent of a zero, whose products are not the largest

/// The numbers of a row; the exponents of their leading bits, subnormals with that of the least
/// normal number.
struct RowOfOperands {
  float value[32];
  int exponent[32];
  bool finite;
};

/// Of every byte of a format.
struct Numbers {
  float value[256];
  int exponent[256];
};
template <Fp8 format>
Numbers numbers_of() {
  constexpr int fraction = format == Fp8::e4m3 ? 3 : 2, most = (1 << (7 - fraction)) - 1;
  Numbers numbers;
  for (int bits = 0; bits < 256; ++bits) {
    const int biased = bits >> fraction & most, low = bits & ((1 << fraction) - 1);
    const int magnitude = low | (biased != 0 ? 1 << fraction : 0);
    const int exponent = std::max(biased, 1) - (most >> 1);
    float size = std::ldexp(static_cast<float>(magnitude), exponent - fraction);
    if (format == Fp8::e4m3 && (bits & 0x7f) == 0x7f) size = NAN;
    if (format == Fp8::e5m2 && biased == most) size = low == 0 ? INFINITY : NAN;
    numbers.value[bits] = bits >> 7 ? -size : size;
    numbers.exponent[bits] = magnitude == 0 ? none : exponent;
  }
  return numbers;
}

template <Fp8 format>
RowOfOperands row_of(const std::uint8_t* bytes) {
  static const Numbers numbers = numbers_of<format>();
  RowOfOperands row;
  row.finite = true;
  for (int k = 0; k < 32; ++k) {
    row.value[k] = numbers.value[bytes[k]];
    row.exponent[k] = numbers.exponent[bytes[k]];
    row.finite = row.finite && std::isfinite(row.value[k]);
  }
  return row;
}

/// What IEEE arithmetic makes of a row in which something is not finite.
float add_plainly(const RowOfOperands& x, const RowOfOperands& y, float c) {
  double sum = c;
  for (int k = 0; k < 32; ++k) {
    if (!std::isfinite(x.value[k]) || !std::isfinite(y.value[k])) {
      sum += static_cast<double>(x.value[k]) * y.value[k];
    }
  }
  return canonical(static_cast<float>(sum));
}

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

/// Of the leading bit of a normal number; of the others that of the least normal number.
int exponent_of(float x) {
  return std::max(static_cast<int>(std::bit_cast<std::uint32_t>(x) >> 23 & 255), 1) - 127;
}

/// The sum, size · 2^unit, as an fp32 of its leading bit and the kept bits behind it.
float cut_to_f32(std::int32_t sum, int unit) {
  const auto size = static_cast<std::uint32_t>(sum < 0 ? -sum : sum);
  const int extra = std::max(0, static_cast<int>(std::bit_width(size)) - 1 - kept_bits);
  const double cut = (size >> extra << extra) * power_of_two(unit);
  return static_cast<float>(sum < 0 ? -cut : cut);
}

/// The same rounded to f16, nearest even: a sum is exact in an fp32.
float round_to_f16(std::int32_t sum, int unit) {
  return f16_to_f32(f32_to_f16(static_cast<float>(sum * power_of_two(unit))));
}

/// Terms are cut to whole numbers of 2^(top - kept_bits), top being the largest sum of a product's
/// two exponents, or that of c. A product is less than four times 2^top: 33 terms fit 21 bits.
template <bool to_f16>
float add_row(const RowOfOperands& x, const RowOfOperands& y, float c) {
  if (!(x.finite && y.finite && std::isfinite(c))) return add_plainly(x, y, c);
  int top = none;
  for (int k = 0; k < 32; ++k) top = std::max(top, x.exponent[k] + y.exponent[k]);
  const bool adds = top > none / 2;  // a product that is not zero
  if (c != 0) top = std::max(top, exponent_of(c));
  if (c == 0 && !adds) return 0;
  auto sum = static_cast<std::int32_t>(c * power_of_two(kept_bits - top));
  if (adds) {
    const auto scale = static_cast<float>(power_of_two(kept_bits - top));
    for (int k = 0; k < 32; ++k) {
      sum += static_cast<std::int32_t>(x.value[k] * y.value[k] * scale);
    }
  }
  return to_f16 ? round_to_f16(sum, top - kept_bits) : cut_to_f32(sum, top - kept_bits);
}

template <Fp8 a_format, Fp8 b_format, bool to_f16>
void add_all(const std::uint8_t (&a)[16][32], const std::uint8_t (*b)[32], int count,
             float (*c)[16]) {
  RowOfOperands left[16];
  for (int i = 0; i < 16; ++i) left[i] = row_of<a_format>(a[i]);
  for (int n = 0; n < count; ++n) {
    const RowOfOperands right = row_of<b_format>(b[n]);
    for (int i = 0; i < 16; ++i) c[n][i] = add_row<to_f16>(left[i], right, c[n][i]);
  }
}

template <bool to_f16>
void add_formats(Fp8 a_format, Fp8 b_format, const std::uint8_t (&a)[16][32],
                 const std::uint8_t (*b)[32], int count, float (*c)[16]) {
  using enum Fp8;
  const bool a_is_e4m3 = a_format == e4m3;
  if (b_format == e4m3) {
    a_is_e4m3 ? add_all<e4m3, e4m3, to_f16>(a, b, count, c)
              : add_all<e5m2, e4m3, to_f16>(a, b, count, c);
  } else {
    a_is_e4m3 ? add_all<e4m3, e5m2, to_f16>(a, b, count, c)
              : add_all<e5m2, e5m2, to_f16>(a, b, count, c);
  }
}

}  // namespace

void multiply_accumulate(Fp8 a_format, Fp8 b_format, const std::uint8_t (&a)[16][32],
                         const std::uint8_t (*b)[32], int count, float (*c)[16]) {
  add_formats<false>(a_format, b_format, a, b, count, c);
}

void multiply_accumulate_to_f16(Fp8 a_format, Fp8 b_format, const std::uint8_t (&a)[16][32],
                                const std::uint8_t (*b)[32], int count, float (*c)[16]) {
  add_formats<true>(a_format, b_format, a, b, count, c);
}

}  // namespace lanescope::simt

// Products of 8-bit floats as a Hopper's wgmma computes them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

constexpr int kept_bits = 13;  // fraction bits of terms, and of an fp32

enum class ByteKind : std::uint8_t { finite, infinite, nan };

/// value = significand · 2^(exponent − the format's fraction bits).
struct Byte {
  int significand, exponent;
  ByteKind kind;
};
template <Fp8 format>
Byte split_byte(std::uint8_t bits) {
  constexpr int fraction = format == Fp8::e4m3 ? 3 : 2, most = (1 << (7 - fraction)) - 1;
  const int biased = bits >> fraction & most, low = bits & ((1 << fraction) - 1);
  const int magnitude = low | (biased != 0 ? 1 << fraction : 0);
  ByteKind kind = ByteKind::finite;
  if (format == Fp8::e4m3 && (bits & 0x7f) == 0x7f) kind = ByteKind::nan;
  if (format == Fp8::e5m2 && biased == most) kind = low == 0 ? ByteKind::infinite : ByteKind::nan;
  return {bits >> 7 ? -magnitude : magnitude, (biased == 0 ? 1 : biased) - (most >> 1), kind};
}
constexpr int fraction_bits(Fp8 format) { return format == Fp8::e4m3 ? 3 : 2; }

/// x · 2^by, truncated toward zero to a whole number.
std::int64_t shifted(std::int64_t x, int by) {
  if (by >= 0) return x << by;
  const std::int64_t size = by < -62 ? 0 : (x < 0 ? -x : x) >> -by;
  return x < 0 ? -size : size;
}

/// What IEEE arithmetic makes of a row in which something is not finite.
float add_plainly(const Byte (&x)[32], const Byte (&y)[32], float c) {
  double sum = c;
  const auto value = [](const Byte& byte) {
    if (byte.kind == ByteKind::nan) return static_cast<double>(NAN);
    const double size = byte.kind == ByteKind::infinite ? INFINITY : 1;
    return byte.kind == ByteKind::finite ? byte.significand : byte.significand < 0 ? -size : size;
  };
  for (int k = 0; k < 32; ++k) {
    if (x[k].kind != ByteKind::finite || y[k].kind != ByteKind::finite)
      sum += value(x[k]) * value(y[k]);
  }
  return canonical(static_cast<float>(sum));
}

/// The sum, size · 2^unit, as an fp32 of its leading bit and the kept bits behind it.
float cut_to_f32(std::int64_t sum, int unit) {
  const std::uint64_t size = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  const int extra = std::max(0, static_cast<int>(std::bit_width(size)) - 1 - kept_bits);
  const auto cut = static_cast<double>(size >> extra << extra);
  return sum == 0 ? 0.0F : static_cast<float>(std::ldexp(sum < 0 ? -cut : cut, unit));
}

/// The same rounded to f16, nearest even: a sum is exact in an fp32.
float round_to_f16(std::int64_t sum, int unit) {
  const auto exact = static_cast<float>(std::ldexp(static_cast<double>(sum), unit));
  return sum == 0 ? 0.0F : f16_to_f32(f32_to_f16(exact));
}

template <Fp8 a_format, Fp8 b_format, bool to_f16>
float add_row(const std::uint8_t* a, const std::uint8_t* b, float c) {
  constexpr int none = -4096, units = fraction_bits(a_format) + fraction_bits(b_format);
  int top = none;
  Byte x[32], y[32];
  bool finite = std::isfinite(c);
  for (int k = 0; k < 32; ++k) {
    x[k] = split_byte<a_format>(a[k]);
    y[k] = split_byte<b_format>(b[k]);
    finite = finite && x[k].kind == ByteKind::finite && y[k].kind == ByteKind::finite;
    if (x[k].significand * y[k].significand != 0)
      top = std::max(top, x[k].exponent + y[k].exponent);
  }
  if (!finite) return add_plainly(x, y, c);
  const auto bits = std::bit_cast<std::uint32_t>(c);
  const int biased = static_cast<int>(bits >> 23 & 255);
  const std::int64_t magnitude = (bits & 0x7fffff) | (biased != 0 ? 0x800000 : 0);
  const int exponent = (biased == 0 ? 1 : biased) - 127;
  if (magnitude != 0) top = std::max(top, exponent);
  if (top == none) return 0;
  std::int64_t sum = shifted(bits >> 31 ? -magnitude : magnitude, kept_bits - 23 + exponent - top);
  for (int k = 0; k < 32; ++k) {
    const std::int64_t product = std::int64_t{x[k].significand} * y[k].significand;
    sum += shifted(product, kept_bits - units + x[k].exponent + y[k].exponent - top);
  }
  return to_f16 ? round_to_f16(sum, top - kept_bits) : cut_to_f32(sum, top - kept_bits);
}

template <Fp8 a_format, Fp8 b_format, bool to_f16>
void add_all(const std::uint8_t (&a)[16][32], const std::uint8_t (*b)[32], int count,
             float (*c)[16]) {
  for (int n = 0; n < count; ++n) {
    for (int i = 0; i < 16; ++i) c[n][i] = add_row<a_format, b_format, to_f16>(a[i], b[n], c[n][i]);
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

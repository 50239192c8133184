#include "debug/simt/tensor_core_scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

constexpr int kept = 25;  // bits of a term below the largest exponent

/// significand · 2^unit; `exponent` is that of the format, which a subnormal does not lower.
struct Number {
  std::int64_t significand;
  int unit, exponent;
  bool finite;
};
Number split_number(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int most = (1 << exponent_bits) - 1;
  const int biased = static_cast<int>(bits >> fraction_bits) & most;
  const std::int64_t magnitude =
      (bits & ((1u << fraction_bits) - 1)) | (biased != 0 ? 1u << fraction_bits : 0);
  const int exponent = (biased == 0 ? 1 : biased) - (most >> 1);
  const bool negative = (bits >> (exponent_bits + fraction_bits) & 1) != 0;
  return {negative ? -magnitude : magnitude, exponent - fraction_bits, exponent, biased != most};
}

struct Sum {
  std::int64_t units;
  int unit;
};
/// All terms, each truncated toward zero.
Sum add_terms(std::span<const Number> terms) {
  int top = INT32_MIN;
  for (const Number& term : terms) {
    if (term.significand != 0) top = std::max(top, term.exponent);
  }
  if (top == INT32_MIN) return {0, 0};
  const int unit = top - kept;
  std::int64_t sum = 0;
  for (const Number& term : terms) {
    const int up = term.unit - unit;
    const std::int64_t size = term.significand < 0 ? -term.significand : term.significand;
    const std::int64_t cut = up >= 0 ? size << up : up < -62 ? 0 : size >> -up;
    sum += term.significand < 0 ? -cut : cut;
  }
  return {sum, unit};
}

/// Bits below 2^`least` are none of the format's: how many of the sum's go, of `digits` at most.
int bits_to_drop(Sum sum, int digits, int least) {
  const auto size = static_cast<std::uint64_t>(sum.units < 0 ? -sum.units : sum.units);
  return std::max({0, static_cast<int>(std::bit_width(size)) - digits, least - sum.unit});
}

float truncate_to_f32(Sum sum) {
  const int drop = std::min(bits_to_drop(sum, 24, -149), 63);
  const std::int64_t size = (sum.units < 0 ? -sum.units : sum.units) >> drop;
  const double value = std::ldexp(static_cast<double>(size), sum.unit + drop);
  return static_cast<float>(sum.units < 0 && size != 0 ? -value : value);
}

std::uint16_t round_to_f16(Sum sum) {
  const int drop = std::min(bits_to_drop(sum, 11, -24), 62);
  std::int64_t size = sum.units < 0 ? -sum.units : sum.units;
  const std::int64_t rest = size & ((std::int64_t{1} << drop) - 1);
  const std::int64_t half = drop > 0 ? std::int64_t{1} << (drop - 1) : 0;
  size >>= drop;
  if (rest > half || (rest == half && half != 0 && (size & 1) != 0)) ++size;
  const double value = std::ldexp(static_cast<double>(size), sum.unit + drop);
  return f32_to_f16(static_cast<float>(sum.units < 0 && size != 0 ? -value : value));
}

Number product_of(const Number& a, const Number& b) {
  return {a.significand * b.significand, a.unit + b.unit, a.exponent + b.exponent, true};
}

}  // namespace

void multiply_accumulate_tf32(const std::uint32_t (&a)[16][8], const std::uint32_t (&b)[8][8],
                              float (&c)[8][16]) {
  constexpr std::uint32_t of_tf32 = 0xffffe000;
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 16; ++i) {
      Number terms[9];
      bool finite = true;
      float plain = c[n][i];
      for (int k = 0; k < 8; ++k) {
        const std::uint32_t x_bits = a[i][k] & of_tf32, y_bits = b[n][k] & of_tf32;
        const Number x = split_number(x_bits, 8, 23), y = split_number(y_bits, 8, 23);
        finite = finite && x.finite && y.finite;
        plain += std::bit_cast<float>(x_bits) * std::bit_cast<float>(y_bits);
        terms[k] = product_of(x, y);
      }
      terms[8] = split_number(std::bit_cast<std::uint32_t>(c[n][i]), 8, 23);
      c[n][i] = finite && terms[8].finite ? truncate_to_f32(add_terms(terms)) : canonical(plain);
    }
  }
}

void multiply_accumulate_f16(const std::uint16_t (&a)[16][16], const std::uint16_t (&b)[8][16],
                             std::uint16_t (&c)[8][16]) {
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 16; ++i) {
      Number terms[17];
      bool finite = true;
      float plain = f16_to_f32(c[n][i]);
      for (int k = 0; k < 16; ++k) {
        const Number x = split_number(a[i][k], 5, 10), y = split_number(b[n][k], 5, 10);
        finite = finite && x.finite && y.finite;
        plain += f16_to_f32(a[i][k]) * f16_to_f32(b[n][k]);
        terms[k] = product_of(x, y);
      }
      terms[16] = split_number(c[n][i], 5, 10);
      c[n][i] = finite && terms[16].finite ? round_to_f16(add_terms(terms)) : f32_to_f16(plain);
    }
  }
}

}  // namespace lanescope::simt

// Products of matrices in integers, term by term: of any numbers. Most are done in
// tensor_core_columns.cc.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#include "debug/simt/numerics.h"

namespace lanescope::simt {
namespace {

constexpr int zero_exponent = -4096;  // of a zero: it never sets the largest exponent

/// The eight columns of a row of c.
using Columns [[gnu::vector_size(32)]] = std::int32_t;
using Floats [[gnu::vector_size(32)]] = float;
using Longs [[gnu::vector_size(64)]] = std::int64_t;
using Doubles [[gnu::vector_size(64)]] = double;

/// value = significand · 2^(exponent − fraction bits of the format).
struct Left {
  std::int32_t significand[16][16], exponent[16][16];  ///< [row][k]
};
struct Right {
  Columns significand[16], exponent[16];  ///< [k], a column each
};

/// Splits the bits of f16 or bf16 numbers. Returns whether all of them are finite.
template <int count>
[[gnu::always_inline]] inline bool split(ElementType type, const std::uint16_t* bits,
                                         std::int32_t* significand, std::int32_t* exponent) {
  const int fraction_bits = type == ElementType::f16 ? 10 : 7;
  const int exponent_max = type == ElementType::f16 ? 31 : 255;
  int not_finite = 0;
  for (int i = 0; i < count; ++i) {
    const int biased = bits[i] >> fraction_bits & exponent_max;
    const int magnitude =
        (bits[i] & ((1 << fraction_bits) - 1)) | (biased != 0 ? 1 << fraction_bits : 0);
    significand[i] = bits[i] >> 15 ? -magnitude : magnitude;
    exponent[i] = magnitude == 0 ? zero_exponent : (biased == 0 ? 1 : biased) - (exponent_max >> 1);
    not_finite |= biased == exponent_max;
  }
  return not_finite == 0;
}

/// value truncated toward zero to fp32, of eight numbers whose exponents are a double's. What
/// truncates to nothing is +0, also where it was negative.
[[gnu::always_inline]] inline void truncate_to_f32(const Doubles& values, float (&truncated)[8]) {
  constexpr std::int64_t kept = ~((std::int64_t{1} << 29) - 1);  // of a double's fraction
  Doubles sizes = values < 0.0 ? -values : values;
  const auto subnormal = sizes < 0x1p-126 && sizes > 0.0;
  std::int64_t any = 0;
  for (int n = 0; n < 8; ++n) any |= subnormal[n];
  if (any) [[unlikely]] {
    for (int n = 0; n < 8; ++n) {
      if (subnormal[n]) sizes[n] = std::trunc(sizes[n] * 0x1p149) * 0x1p-149;
    }
  }
  const Doubles cut = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(sizes) & kept);
  const Floats result = __builtin_convertvector(values < 0.0 ? 0.0 - cut : cut, Floats);
  std::memcpy(truncated, &result, sizeof truncated);
}

/// One group of one row: c[n] ← the sum over k in [k_begin, k_end) of a[k]·b[k][n], and of c[n],
/// every term truncated to `kept_bits` below the largest exponent, the sum truncated to fp32.
/// `fraction_bits` are those of a product's exact significand (20 for f16, 14 for bf16).
[[gnu::always_inline]] inline void add_group(const std::int32_t* a_significand,
                                             const std::int32_t* a_exponent, const Right& b,
                                             int k_begin, int k_end, int fraction_bits,
                                             int kept_bits, float (&c)[8]) {
  Columns c_bits;
  std::memcpy(&c_bits, c, sizeof c_bits);
  const Columns c_biased = c_bits >> 23 & 255;
  const Columns c_magnitude = (c_bits & 0x7fffff) | (c_biased != 0 ? 0x800000 : Columns{});
  const Columns c_exponent =
      c_magnitude == 0 ? zero_exponent + Columns{} : (c_biased == 0 ? 1 : c_biased) - 127;
  Columns top = c_exponent;
  for (int k = k_begin; k < k_end; ++k) {
    const Columns exponent = a_exponent[k] + b.exponent[k];
    top = exponent > top ? exponent : top;
  }
  // A product has at most 2 + fraction_bits bits before it moves up, 2 + kept_bits after, and 16
  // of them fit 31 bits with kept_bits <= 25.
  const int up = kept_bits - fraction_bits;
  Columns products = {};
  for (int k = k_begin; k < k_end; ++k) {
    const Columns product = (a_significand[k] << up) * b.significand[k];
    const Columns negative = product >> 31;
    const Columns distance = top - a_exponent[k] - b.exponent[k];
    const Columns term = ((product ^ negative) - negative) >> (distance > 31 ? 31 : distance);
    products += (term ^ negative) - negative;
  }
  const Columns c_distance = top - c_exponent;
  const Columns c_term = (c_magnitude << (kept_bits - 23)) >> (c_distance > 31 ? 31 : c_distance);
  // A sum fits a double, and times a power of two it stays exact.
  const Doubles sum = __builtin_convertvector(products, Doubles) +
                      __builtin_convertvector(c_bits < 0 ? -c_term : c_term, Doubles);
  const Columns unit = top - kept_bits;                  // exponent of the terms' lowest bit
  const Columns in_range = unit < -1022 ? -1022 : unit;  // all terms are 0 below
  const Longs unit_bits = (__builtin_convertvector(in_range, Longs) + 1023) << 52;
  truncate_to_f32(sum * reinterpret_cast<Doubles>(unit_bits), c);
}

double value_of_factor(ElementType type, std::uint16_t bits) {
  return type == ElementType::f16 ? f16_to_f32(bits)
                                  : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The factors as what they stand for.
struct Factors {
  Factors(ElementType type, const std::uint16_t (&a)[16][16], const std::uint16_t (*b)[16]) {
    for (int k = 0; k < 16; ++k) {
      for (int i = 0; i < 16; ++i) left[i][k] = value_of_factor(type, a[i][k]);
      for (int n = 0; n < 8; ++n) right[k][n] = value_of_factor(type, b[n][k]);
    }
  }
  double left[16][16];  ///< [row][k]
  Doubles right[16];    ///< [k], a column each
};

/// sums += what IEEE arithmetic makes of a row: the result where an inf or a NaN takes part,
/// whatever the rounding.
void add_plainly(const Factors& factors, int row, Doubles& sums) {
  for (int k = 0; k < 16; ++k) sums += factors.left[row][k] * factors.right[k];
}

}  // namespace

void multiply_in_integers(ElementType type, TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                          const std::uint16_t (*b)[16], float (*c)[16]) {
  Left left;
  Right right;
  bool finite = split<256>(type, a[0], left.significand[0], left.exponent[0]);
  std::uint16_t rows_of_b[16][8];
  for (int n = 0; n < 8; ++n) {
    for (int k = 0; k < 16; ++k) rows_of_b[k][n] = b[n][k];
  }
  std::int32_t significand[16][8], exponent[16][8];
  finite &= split<128>(type, rows_of_b[0], significand[0], exponent[0]);
  std::memcpy(right.significand, significand, sizeof significand);
  std::memcpy(right.exponent, exponent, sizeof exponent);
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 16; ++i) finite &= std::isfinite(c[n][i]);
  }
  std::optional<Factors> factors;
  if (!finite) factors.emplace(type, a, b);
  const int fraction_bits = type == ElementType::f16 ? 20 : 14;
  for (int i = 0; i < 16; ++i) {
    float row[8];
    for (int n = 0; n < 8; ++n) row[n] = c[n][i];
    Doubles plain = {};
    if (factors) {
      for (int n = 0; n < 8; ++n) plain[n] = row[n];
      add_plainly(*factors, i, plain);
    }
    bool any_finite = false;
    for (int n = 0; n < 8; ++n) any_finite |= std::isfinite(plain[n]);
    for (int k = 0; any_finite && k < 16; k += rule.k_block) {
      add_group(left.significand[i], left.exponent[i], right, k, k + rule.k_block, fraction_bits,
                rule.fraction_bits, row);
    }
    for (int n = 0; n < 8; ++n) {
      if (std::isnan(plain[n])) row[n] = std::bit_cast<float>(0x7fffffffu);
      if (std::isinf(plain[n])) row[n] = static_cast<float>(plain[n]);
      c[n][i] = row[n];
    }
  }
}

}  // namespace lanescope::simt

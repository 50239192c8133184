#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "debug/simt/numerics.h"

// Each clone runs the same integer operations, so the bits do not depend on the CPU.
#if defined(__x86_64__)
#define LANESCOPE_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define LANESCOPE_VECTOR_CLONES
#endif

namespace lanescope::simt {
namespace {

constexpr int zero_exponent = -4096;  // of a factor 0: its products never set the largest exponent

/// value = significand · 2^(exponent − fraction bits of the format).
struct Factor {
  std::int32_t significand;
  std::int32_t exponent;
  bool finite;
};

Factor decode(ElementType type, std::uint16_t bits) {
  const int fraction_bits = type == ElementType::f16 ? 10 : 7;
  const int exponent_max = type == ElementType::f16 ? 31 : 255;
  const int bias = exponent_max / 2;
  const int exponent = bits >> fraction_bits & exponent_max;
  std::int32_t significand = bits & ((1 << fraction_bits) - 1);
  if (exponent != 0) significand |= 1 << fraction_bits;
  const bool zero = significand == 0;
  return {bits >> 15 ? -significand : significand,
          zero ? zero_exponent : std::max(exponent, 1) - bias, exponent != exponent_max};
}

/// Left and right factors of one product, as the vector loop wants them: one column index last.
struct Operands {
  std::int32_t a_significand[16][16], a_exponent[16][16];
  std::int32_t b_significand[16][8], b_exponent[16][8];
};

/// One group of one row: c[n] = truncated sum over k in [k_begin, k_end) of a[k]·b[k][n], plus
/// c[n]. `fraction_bits` are those of a product's exact significand (20 for f16, 14 for bf16).
LANESCOPE_VECTOR_CLONES
void add_group(const std::int32_t* a_significand, const std::int32_t* a_exponent,
               const std::int32_t (*b_significand)[8], const std::int32_t (*b_exponent)[8],
               int k_begin, int k_end, int fraction_bits, int kept_bits,
               const std::int32_t* c_significand, const std::int32_t* c_exponent, std::int64_t* sum,
               std::int32_t* largest) {
  std::int32_t top[8];
  for (int n = 0; n < 8; ++n) top[n] = c_exponent[n];
  for (int k = k_begin; k < k_end; ++k) {
    for (int n = 0; n < 8; ++n) top[n] = std::max(top[n], a_exponent[k] + b_exponent[k][n]);
  }
  // A product has at most 2 + fraction_bits bits before it moves up, 2 + kept_bits after, and 16
  // of them fit 31 bits with kept_bits <= 25.
  const int up = kept_bits - fraction_bits;
  std::int32_t positive[8] = {}, negative[8] = {};
  for (int k = k_begin; k < k_end; ++k) {
    for (int n = 0; n < 8; ++n) {
      const std::int32_t product = a_significand[k] * b_significand[k][n];
      const std::int32_t magnitude = (product < 0 ? -product : product) << up;
      const std::int32_t shift = top[n] - a_exponent[k] - b_exponent[k][n];
      const std::int32_t term = magnitude >> (shift > 31 ? 31 : shift);
      positive[n] += product < 0 ? 0 : term;
      negative[n] += product < 0 ? term : 0;
    }
  }
  for (int n = 0; n < 8; ++n) {
    const std::int32_t magnitude = std::abs(c_significand[n]) << (kept_bits - 23);
    const std::int32_t shift = top[n] - c_exponent[n];
    const std::int32_t term = magnitude >> (shift > 31 ? 31 : shift);
    sum[n] = std::int64_t{positive[n]} - negative[n] + (c_significand[n] < 0 ? -term : term);
    largest[n] = top[n];
  }
}

/// sum · 2^(largest − kept_bits), truncated toward zero to fp32.
float truncate_to_f32(std::int64_t sum, int largest, int kept_bits) {
  if (sum == 0) return 0;
  auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  int exponent = largest - kept_bits;  // of the lowest bit
  const int excess = std::max(64 - std::countl_zero(magnitude) - 24, -149 - exponent);
  if (excess > 0) {
    magnitude = excess > 63 ? 0 : magnitude >> excess;
    if (magnitude == 0) return 0;  // +0, also of a negative sum
    exponent += excess;
  }
  const float value = std::ldexp(static_cast<float>(magnitude), exponent);
  return sum < 0 ? -value : value;
}

void split(float c, std::int32_t& significand, std::int32_t& exponent) {
  const auto bits = std::bit_cast<std::uint32_t>(c);
  const auto biased = static_cast<std::int32_t>(bits >> 23 & 255);
  significand = static_cast<std::int32_t>(bits & 0x7fffff) | (biased ? 0x800000 : 0);
  exponent = significand == 0 ? zero_exponent : std::max(biased, 1) - 127;
  if (bits >> 31) significand = -significand;
}

double value_of_factor(ElementType type, std::uint16_t bits) {
  return type == ElementType::f16 ? f16_to_f32(bits)
                                  : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Where an inf or a NaN takes part, the result is what IEEE arithmetic gives, whatever the
/// rounding.
void replace_non_finite(ElementType type, const std::uint16_t (&a)[16],
                        const std::uint16_t (&b)[16][8], int n, float before, float& result) {
  double sum = before;
  for (int k = 0; k < 16; ++k) sum += value_of_factor(type, a[k]) * value_of_factor(type, b[k][n]);
  if (std::isnan(sum)) result = std::bit_cast<float>(0x7fffffffu);
  if (std::isinf(sum)) result = static_cast<float>(sum);
}

}  // namespace

void multiply_accumulate(ElementType type, TensorCoreRule rule, const std::uint16_t (&a)[16][16],
                         const std::uint16_t (&b)[16][8], float (&c)[16][8]) {
  Operands x;
  bool finite = true;
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) {
      const Factor f = decode(type, a[i][k]);
      x.a_significand[i][k] = f.significand;
      x.a_exponent[i][k] = f.exponent;
      finite &= f.finite;
    }
    for (int n = 0; n < 8; ++n) {
      const Factor f = decode(type, b[i][n]);
      x.b_significand[i][n] = f.significand;
      x.b_exponent[i][n] = f.exponent;
      finite &= f.finite;
    }
  }
  for (const auto& row : c) {
    for (float value : row) finite &= std::isfinite(value);
  }
  const int fraction_bits = type == ElementType::f16 ? 20 : 14;
  for (int i = 0; i < 16; ++i) {
    float before[8];
    std::copy_n(c[i], 8, before);
    for (int k = 0; k < 16; k += rule.k_block) {
      std::int32_t c_significand[8], c_exponent[8], largest[8];
      std::int64_t sum[8];
      for (int n = 0; n < 8; ++n) split(c[i][n], c_significand[n], c_exponent[n]);
      add_group(x.a_significand[i], x.a_exponent[i], x.b_significand, x.b_exponent, k,
                k + rule.k_block, fraction_bits, rule.fraction_bits, c_significand, c_exponent, sum,
                largest);
      for (int n = 0; n < 8; ++n) c[i][n] = truncate_to_f32(sum[n], largest[n], rule.fraction_bits);
    }
    for (int n = 0; n < 8 && !finite; ++n) replace_non_finite(type, a[i], b, n, before[n], c[i][n]);
  }
}

}  // namespace lanescope::simt

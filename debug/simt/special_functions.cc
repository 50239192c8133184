#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "debug/simt/branch_free.h"
#include "debug/simt/numerics.h"
#include "debug/simt/special_function_tables.h"

namespace lanescope::simt {
namespace {

constexpr std::uint32_t fraction_mask = 0x7fffff;
constexpr int offset_bits = 17;  // of the 23-bit fraction: 6 bits choose the row, 17 go on
constexpr float canonical_nan = std::bit_cast<float>(0x7fffffffu);

}  // namespace

float ex2(float x) { return branch_free::ex2(x); }

float lg2(float x) {
  if (std::isnan(x)) return canonical_nan;
  if (std::fabs(x) < std::numeric_limits<float>::min()) {
    return -std::numeric_limits<float>::infinity();  // subnormals are flushed to zero
  }
  if (x < 0) return canonical_nan;
  if (std::isinf(x)) return x;
  if (x == 1) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::int64_t exponent = static_cast<std::int64_t>(bits >> 23) - 127;
  const Row& row = lg2_rows[(bits & fraction_mask) >> offset_bits];
  const std::uint32_t r = bits & ((1u << offset_bits) - 1);
  // log2 as a number with 36 fraction bits.
  std::int64_t v = ((std::int64_t{row.t0} << 12) + std::int64_t{row.t1} * r +
                    std::int64_t{2} * row.t2 * branch_free::truncated_square(r) + 0x3345) >>
                   2;
  v += exponent * (std::int64_t{1} << 36);
  const bool negative = v < 0;
  auto magnitude = static_cast<std::uint64_t>(negative ? ~v : v);
  if (magnitude == 0) return 0;
  const int excess = 64 - std::countl_zero(magnitude) - 24;
  if (excess > 0) magnitude = magnitude >> excess << excess;
  const float result = std::ldexp(static_cast<float>(magnitude), -36);
  return negative ? -result : result;
}

float rcp(float x) {
  if (std::isnan(x)) return canonical_nan;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const float sign = std::signbit(x) ? -1.0f : 1.0f;
  if (std::isinf(x)) return sign * 0.0f;
  if (std::fabs(x) < std::numeric_limits<float>::min()) {
    return sign * std::numeric_limits<float>::infinity();  // subnormals are flushed to zero
  }
  const std::uint32_t fraction = bits & fraction_mask;
  const Row& row = rcp_rows[fraction >> 16];
  const std::uint32_t r = fraction & 0xffff;
  const std::int64_t v = ((std::int64_t{row.t0} << 13) + std::int64_t{row.t1} * r +
                          std::int64_t{row.t2} * branch_free::truncated_square(2 * r) + 0x47e7) >>
                         15;
  const int exponent = static_cast<int>(bits >> 23 & 255) - 127;
  const float result = std::ldexp(static_cast<float>(v), -24 - exponent);
  return sign * (result < std::numeric_limits<float>::min() ? 0.0f : result);
}

float rsqrt(float x) {
  if (std::isnan(x)) return canonical_nan;
  if (std::fabs(x) < std::numeric_limits<float>::min()) {
    return std::copysign(std::numeric_limits<float>::infinity(), x);
  }
  if (x < 0) return canonical_nan;
  if (std::isinf(x)) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const int exponent = static_cast<int>(bits >> 23) - 127;
  const std::uint32_t fraction = (bits & fraction_mask) | static_cast<std::uint32_t>(exponent & 1)
                                                              << 23;
  const int half = exponent >> 1;
  if (fraction == 0) return std::ldexp(1.0f, -half);
  const Row& row = rsqrt_rows[fraction >> offset_bits];
  const std::uint32_t r = fraction & ((1u << offset_bits) - 1);
  const std::int64_t v = ((std::int64_t{row.t0} << 14) + std::int64_t{row.t1} * r +
                          std::int64_t{4} * row.t2 * branch_free::truncated_square(r) + 0x7fff) >>
                         16;
  return std::ldexp(static_cast<float>(v), -half - 24);
}

namespace {

/// sin of x, or of a quarter turn more. The unit takes revolutions, in units of 2^-25.
float sin_from(float x, bool quarter) {
  if (!std::isfinite(x)) return canonical_nan;
  if (std::fabs(x) < std::numeric_limits<float>::min()) {
    return quarter ? 1.0f : std::copysign(0.0f, x);
  }
  // The product with 1 / 2π is rounded toward zero.
  const double product =
      static_cast<double>(x) * static_cast<double>(std::bit_cast<float>(0x3e22f983u));
  auto turns = static_cast<float>(product);
  if (std::fabs(static_cast<double>(turns)) > std::fabs(product))
    turns = std::nextafter(turns, 0.0f);
  const float size = std::fabs(turns);
  const std::uint32_t position =
      size >= 0x1p24f
          ? 0
          : static_cast<std::uint32_t>(static_cast<std::uint64_t>(size * 0x1p25f) & 0x1ffffff);
  const std::uint32_t quadrant = (position >> 23) + (quarter ? 1 : 0);
  std::uint32_t fraction = position & fraction_mask;
  if (quadrant & 1) fraction = ~fraction & fraction_mask;
  const bool negative = (!quarter && std::signbit(x)) != ((quadrant >> 1 & 1) != 0);
  const Row& row = sin_rows[fraction >> offset_bits];
  const std::uint32_t r = fraction & ((1u << offset_bits) - 1);
  auto v = static_cast<std::uint64_t>((std::int64_t{row.t0} << 11) + std::int64_t{row.t1} * r +
                                      std::int64_t{row.t2} * branch_free::truncated_square(r));
  const int excess = 64 - std::countl_zero(v) - 24;
  if (excess > 0) v = v >> excess << excess;
  const float result = std::ldexp(static_cast<float>(v), -37);
  return negative ? -result : result;
}

}  // namespace

float sqrt(float x) {
  if (std::isnan(x)) return canonical_nan;
  if (std::fabs(x) < std::numeric_limits<float>::min()) return std::copysign(0.0f, x);
  if (x < 0) return canonical_nan;
  if (std::isinf(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const int exponent = static_cast<int>(bits >> 23) - 127;
  const std::uint32_t fraction = (bits & fraction_mask) | static_cast<std::uint32_t>(exponent & 1)
                                                              << 23;
  const Row& row = sqrt_rows[fraction >> offset_bits];
  const std::uint32_t r = fraction & ((1u << offset_bits) - 1);
  const std::int64_t v = ((std::int64_t{row.t0} << 15) + std::int64_t{row.t1} * r +
                          std::int64_t{2} * row.t2 * branch_free::truncated_square(r) + 0x7fff) >>
                         17;
  return std::ldexp(static_cast<float>(v), (exponent >> 1) - 23);
}

float tanh(float x) {
  if (std::isnan(x)) return canonical_nan;
  constexpr std::uint32_t first_octave = 119, octaves = 11;  // from 2^-8 to 8
  constexpr struct {
    std::uint8_t first_row, row_bits;
  } rows_of[octaves] = {{0, 0},  {1, 0},  {2, 0},  {3, 1},  {5, 1}, {7, 2},
                        {11, 2}, {15, 2}, {19, 3}, {27, 4}, {43, 3}};
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t octave = (bits >> 23 & 255) - first_octave;
  if (std::fabs(x) < 0x1p-8f) return x;
  if (octave >= octaves) return std::copysign(1.0f, x);
  // The bits behind those that choose the row are dropped but for 17.
  const auto [first_row, row_bits] = rows_of[octave];
  const std::uint32_t fraction = bits & fraction_mask;
  const Row& row = tanh_rows[first_row + (fraction >> (23 - row_bits))];
  const std::uint32_t r = fraction >> (6 - row_bits) & ((1u << offset_bits) - 1);
  auto v = static_cast<std::uint64_t>((std::int64_t{row.t0} << 16) + std::int64_t{row.t1} * r +
                                      std::int64_t{row.t2} * branch_free::truncated_square(r));
  const int excess = 64 - std::countl_zero(v) - 24;
  if (excess > 0) v = v >> excess << excess;
  return std::copysign(std::ldexp(static_cast<float>(v), -40), x);
}

float sin(float x) { return sin_from(x, false); }
float cos(float x) { return sin_from(x, true); }

}  // namespace lanescope::simt

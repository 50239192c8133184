#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "debug/simt/special_function_tables.h"

/// The numerics (numerics.h) that loops over lanes are made of: without branches, so that compilers
/// do several lanes at once.
namespace lanescope::simt::branch_free {

/// The squarer of the special functions' unit, of 17 bits: it drops the low bits of each partial
/// product, (r · bit i of r) 2^(i - 18), before it adds them up, and halves the sum. Of the bits
/// from 9 on nothing is dropped: their products are a square. Each other bit meets those, twice.
[[gnu::always_inline]] inline std::uint32_t truncated_square(std::uint32_t r) {
  const std::uint32_t high = r >> 9;
  std::uint32_t sum = high * high >> 1;
#pragma GCC unroll 7
  for (int i = 2; i < 9; ++i) {
    const auto bit = static_cast<std::uint32_t>(static_cast<std::int32_t>(r << (31 - i)) >> 31);
    sum += (r >> (18 - i)) & bit;
  }
  return sum;
}

/// All bits where it holds: of choices compilers make jumps, where they see through them.
[[gnu::always_inline]] inline std::uint32_t all_if(bool holds) {
  return 0u - static_cast<std::uint32_t>(holds);
}

/// A row of ex2_rows in two words, as a lane looks each up apart: t1 above the 10 bits of t2.
struct Ex2Row {
  std::uint32_t t0, t1_t2;
};
inline constexpr std::array<Ex2Row, 64> packed_ex2_rows = [] {
  std::array<Ex2Row, 64> packed = {};
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const auto [t0, t1, t2] = ex2_rows[i];
    packed[i] = {static_cast<std::uint32_t>(t0), static_cast<std::uint32_t>(t1 << 10 | t2)};
  }
  return packed;
}();

/// As ex2 of numerics.h.
[[gnu::always_inline]] inline float ex2(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const std::uint32_t negative = all_if(bits >> 31 != 0);
  const std::uint32_t in_range = all_if(magnitude < 0x43000000);  // below 128
  // x as a 7.23 fixed-point number, truncated toward zero; a negative one is complemented.
  const auto fixed = static_cast<std::uint32_t>(
      static_cast<std::int32_t>(std::bit_cast<float>(magnitude & in_range) * 0x1p23f));
  const std::uint32_t complemented = negative & all_if((fixed & 0x7fffff) != 0);
  const std::uint32_t fraction = (fixed ^ complemented) & 0x7fffff;
  const std::uint32_t exponent = (((fixed >> 23) ^ negative) - negative) + complemented;
  const Ex2Row& row = packed_ex2_rows[fraction >> 17];
  const std::uint32_t t0 = row.t0, t1 = row.t1_t2 >> 10, t2 = row.t1_t2 & 0x3ff;
  const std::uint32_t r = fraction & 0x1ffff;
  // (t0 · 2^13 + t1 · r + t2 · square + 0x77e2) >> 15 in 32 bits: what t1 has above 2^14 apart,
  // which is 1 or 2.
  const std::uint32_t high = r << (t1 >> 15), low = (t1 & 0x3fff) * r;
  const std::uint32_t below =
      ((t0 & 3) << 13) + ((high & 1) << 14) + low + t2 * truncated_square(r) + 0x77e2;
  const std::uint32_t significand = (t0 >> 2) + (high >> 1) + (below >> 15);
  const std::uint32_t normal = (exponent + 127) << 23 | (significand & 0x7fffff);
  // Flushed below 2^-126.
  const std::uint32_t kept = in_range & all_if(static_cast<std::int32_t>(exponent) >= -126);
  const std::uint32_t infinity = 0x7f800000 & ~(in_range | negative);
  const std::uint32_t nan = 0x7fffffff & all_if(magnitude > 0x7f800000);
  return std::bit_cast<float>((normal & kept) | infinity | nan);
}

/// As f32_to_f16.
[[gnu::always_inline]] inline std::uint16_t f32_to_f16(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t magnitude = bits & 0x7fffffff;
  const std::int32_t normal = (magnitude - (0x38000000 - 0xfff) + (magnitude >> 13 & 1)) >> 13;
  // Below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
  const std::int32_t subnormal =
      std::bit_cast<std::int32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  const std::int32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  const std::int32_t number = magnitude >= 0x477ff000 ? 0x7c00 : finite;  // rounds past 65504
  const std::int32_t sign = bits >> 16 & 0x8000;
  return static_cast<std::uint16_t>(magnitude > 0x7f800000 ? 0x7fff : number | sign);
}

/// As f32_to_bf16.
[[gnu::always_inline]] inline std::uint16_t f32_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool is_nan = static_cast<std::int32_t>(bits & 0x7fffffff) > 0x7f800000;
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<std::uint16_t>(is_nan ? 0x7fff : rounded);
}

/// As f16_to_f32.
[[gnu::always_inline]] inline float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t magnitude = bits & 0x7fff;
  // Scaling by 2^112 moves the exponent from binary16's place and normalises subnormals.
  const auto number =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00 ? 0x7f800000 | magnitude << 13 : number));
}

}  // namespace lanescope::simt::branch_free

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "debug/simt/numerics.h"
#include "debug/simt/transpose.h"

/// The factors of a product of matrices as tensor_core_columns.h takes them: numbers and exponents,
/// in lanes of 16 rows.
namespace lanescope::simt::columns {

// The 16 rows of a column, or eight of them.
using ShortRows [[gnu::vector_size(32)]] = std::int16_t;
using HalfOfShorts [[gnu::vector_size(16)]] = std::int16_t;
using FloatRows [[gnu::vector_size(32)]] = float;
using LongRows [[gnu::vector_size(32)]] = std::int64_t;
using Bytes [[gnu::vector_size(32)]] = std::int8_t;  // of two columns
using HalfOfBytes [[gnu::vector_size(16)]] = std::int8_t;

inline constexpr std::int16_t exponent_of_zero = -4096;  // never the largest
/// A factor is held divided by 2^scaled_by. A product of f16 is then scaled to units by an addition
/// to its exponent's bits, which neither overflow, nor leave 1 of a product that is zero: as long
/// as the largest exponent lies in the range that is taken.
template <ElementType type>
inline constexpr int scaled_by = type == ElementType::f16 ? 6 : 0;
/// Largest exponents that are taken here, but of sums of nothing but zeroes.
template <ElementType type>
inline constexpr int least_top = type == ElementType::f16 ? -88 : -100;
template <ElementType type>
inline constexpr int most_top = type == ElementType::f16 ? 37 : 125;

/// Of f16, exponents fit bytes, sums of two as well. Those with a zero's are told by their size.
inline constexpr std::int8_t byte_of_zero = -64;
inline constexpr std::int8_t least_of_f16 = -28;  ///< exponent of a product that is not zero

template <ElementType type>
struct LeftRows {
  using Exponents = std::conditional_t<type == ElementType::f16, Bytes, ShortRows>;
  FloatRows value[16][2];  ///< [k], rows 0-7 and 8-15
  Exponents exponent[16];  ///< [k]; as bytes the 16 rows twice
};
template <ElementType type>
struct RightColumns {
  using Exponent = std::conditional_t<type == ElementType::f16, std::int8_t, std::int16_t>;
  alignas(32) float value[8][16];  ///< [n][k]
  alignas(32) Exponent exponent[8][16];
};
/// Of all numbers of a matrix.
struct Extent {
  ShortRows not_finite = {};
  ShortRows largest = exponent_of_zero + ShortRows{};  ///< exponents
};

[[gnu::always_inline]] inline void widen(const ShortRows& x, IntRows (&halves)[2]) {
  const HalfOfShorts low = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
  const HalfOfShorts high = __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  halves[0] = __builtin_convertvector(low, IntRows);
  halves[1] = __builtin_convertvector(high, IntRows);
}

/// Splits the bits of 16 numbers. Exponents of subnormals are the format's lowest.
template <ElementType type>
[[gnu::always_inline]] inline void split_numbers(const ShortRows& bits, FloatRows (&value)[2],
                                                 ShortRows& exponent, Extent& extent) {
  constexpr int fraction_bits = type == ElementType::f16 ? 10 : 7;
  constexpr std::int16_t most = type == ElementType::f16 ? 31 : 255;
  const ShortRows magnitude = bits & 0x7fff;
  const ShortRows biased = magnitude >> fraction_bits;
  extent.not_finite |= biased == most;
  const ShortRows normal =
      (biased == 0 ? 1 + ShortRows{} : biased) - static_cast<std::int16_t>(most >> 1);
  exponent = magnitude == 0 ? exponent_of_zero + ShortRows{} : normal;
  extent.largest = exponent > extent.largest ? exponent : extent.largest;
  IntRows halves[2];
  widen(bits, halves);
  for (int half = 0; half < 2; ++half) {
    const IntRows& wide = halves[half];
    if constexpr (type == ElementType::f16) {
      // As an fp32 whose exponent is too small by the biases' difference, 112.
      static_assert(scaled_by<type> == 6);
      const IntRows moved = wide << 13 & static_cast<int>(0x8fffffffu);
      value[half] = reinterpret_cast<FloatRows>(moved) * 0x1p106f;
    } else {
      const IntRows whole = wide << 16;
      value[half] = reinterpret_cast<FloatRows>(whole);
    }
  }
}

/// Exponents as they are kept.
[[gnu::always_inline]] inline void keep_exponents(const ShortRows& exponents, ShortRows& to) {
  to = exponents;
}
[[gnu::always_inline]] inline void keep_exponents(const ShortRows& exponents, std::int8_t* to) {
  const ShortRows in_range = exponents > byte_of_zero ? exponents : byte_of_zero + ShortRows{};
  const HalfOfBytes rows = __builtin_convertvector(in_range, HalfOfBytes);
  std::memcpy(to, &rows, sizeof rows);
}
[[gnu::always_inline]] inline void keep_exponents(const ShortRows& exponents, Bytes& to) {
  auto* bytes = reinterpret_cast<std::int8_t*>(&to);
  keep_exponents(exponents, bytes);
  std::memcpy(bytes + 16, bytes, 16);
}
[[gnu::always_inline]] inline void keep_exponents(const ShortRows& exponents, std::int16_t* to) {
  std::memcpy(to, &exponents, sizeof exponents);
}
[[gnu::always_inline]] inline bool any(const ShortRows& lanes) {
  LongRows words = reinterpret_cast<LongRows>(lanes);
  return (words[0] | words[1] | words[2] | words[3]) != 0;
}
[[gnu::always_inline]] inline int greatest(const ShortRows& lanes) {
  int result = lanes[0];
  for (int i = 1; i < 16; ++i) result = std::max<int>(result, lanes[i]);
  return result;
}

/// Registers of a, whose elements (row lane / 4 + i % 2 · 8, k lane % 4 · 2 + {0, 1} + i / 2 · 8)
/// are.
template <ElementType type>
[[gnu::always_inline]] inline void take_left(const std::uint32_t* const (&registers)[4],
                                             LeftRows<type>& a, Extent& extent) {
  for (int part = 0; part < 2; ++part) {
    IntRows above[4], below[4];
    transpose_rows(registers[2 * part], above);
    transpose_rows(registers[2 * part + 1], below);
    for (int i = 0; i < 4; ++i) {
      const auto x = reinterpret_cast<ShortRows>(above[i]);
      const auto y = reinterpret_cast<ShortRows>(below[i]);
      const int k = 8 * part + 2 * i;
      const ShortRows even =
          __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      const ShortRows odd =
          __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
      ShortRows exponents;
      split_numbers<type>(even, a.value[k], exponents, extent);
      keep_exponents(exponents, a.exponent[k]);
      split_numbers<type>(odd, a.value[k + 1], exponents, extent);
      keep_exponents(exponents, a.exponent[k + 1]);
    }
  }
}

/// Registers of b, whose elements (k lane % 4 · 2 + {0, 1} + i · 8, column lane / 4) are.
template <ElementType type>
[[gnu::always_inline]] inline void take_right(const std::uint32_t* const (&registers)[2],
                                              RightColumns<type>& b, Extent& extent) {
  for (int i = 0; i < 2; ++i) {
    for (int n = 0; n < 8; n += 2) {
      ShortRows bits, exponents;
      FloatRows values[2];
      std::memcpy(&bits, registers[i] + 4 * n, sizeof bits);
      split_numbers<type>(bits, values, exponents, extent);
      typename RightColumns<type>::Exponent kept[16];
      keep_exponents(exponents, kept);
      for (int half = 0; half < 2; ++half) {
        std::memcpy(&b.value[n + half][8 * i], &values[half], 32);
        std::memcpy(&b.exponent[n + half][8 * i], kept + 8 * half, sizeof kept / 2);
      }
    }
  }
}

/// A left matrix that was taken apart, and its registers: kernels multiply one by several right
/// ones in a row.
template <ElementType type>
struct KnownLeft {
  alignas(64) std::uint32_t registers[4][32];
  LeftRows<type> rows;
  Extent extent;
  bool is_there = false;

  [[gnu::always_inline]] void take(const std::uint32_t* const (&from)[4]) {
    IntRows differs = {};
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      IntRows known, given;
      std::memcpy(&known, registers[i / 4] + 8 * (i % 4), sizeof known);
      std::memcpy(&given, from[i / 4] + 8 * (i % 4), sizeof given);
      differs |= known ^ given;
    }
    if (is_there && !any(reinterpret_cast<ShortRows>(differs))) return;
    for (int i = 0; i < 4; ++i) std::memcpy(registers[i], from[i], sizeof registers[i]);
    extent = {};
    take_left<type>(from, rows, extent);
    is_there = true;
  }
};
/// By some of their bits. Not in the thread's own storage, which is taken from its stack.
template <ElementType type>
KnownLeft<type>& known_left(const std::uint32_t* const (&registers)[4]) {
  thread_local const auto known = std::make_unique<KnownLeft<type>[]>(32);
  const std::uint32_t some =
      registers[0][0] ^ registers[1][10] ^ registers[2][21] ^ registers[3][31];
  return known[some * 0x9e3779b1u >> 27];
}

}  // namespace lanescope::simt::columns

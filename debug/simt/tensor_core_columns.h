#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "debug/simt/numerics.h"
#include "debug/simt/transpose.h"

/// Products of matrices in lanes of 16 rows, for numbers that are finite and whose terms lie in the
/// range of fp32: there a term truncated to whole units is a product of floats, scaled by a power
/// of two, converted to an integer. What it does not take goes the general way (tensor_core.cc).
namespace lanescope::simt::columns {

// The 16 rows of a column, or eight or four of them.
using ShortRows [[gnu::vector_size(32)]] = std::int16_t;
using HalfOfShorts [[gnu::vector_size(16)]] = std::int16_t;
using HalfOfInts [[gnu::vector_size(16)]] = std::int32_t;
using FloatRows [[gnu::vector_size(32)]] = float;
using HalfOfFloats [[gnu::vector_size(16)]] = float;
using DoubleRows [[gnu::vector_size(32)]] = double;
using LongRows [[gnu::vector_size(32)]] = std::int64_t;

inline constexpr std::int16_t exponent_of_zero = -4096;  // never the largest
/// Exponents of products and of the accumulator that are taken here, but for those of zeroes.
inline constexpr int least_top = -100, most_top = 125;

struct LeftRows {
  FloatRows value[16][2];  ///< [k], rows 0-7 and 8-15
  ShortRows exponent[16];  ///< [k]
};
struct RightColumns {
  alignas(32) float value[8][16];  ///< [n][k]
  alignas(32) std::int16_t exponent[8][16];
};
/// Of all numbers of a matrix.
struct Extent {
  ShortRows not_finite = {};
  ShortRows largest = exponent_of_zero + ShortRows{};  ///< exponents
};

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
  const HalfOfShorts low = __builtin_shufflevector(bits, bits, 0, 1, 2, 3, 4, 5, 6, 7);
  const HalfOfShorts high = __builtin_shufflevector(bits, bits, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int half = 0; half < 2; ++half) {
    const IntRows wide = __builtin_convertvector(half == 0 ? low : high, IntRows);
    if constexpr (type == ElementType::f16) {
      // As an fp32 whose exponent is too small by the biases' difference.
      const IntRows size = (wide & 0x7fff) << 13;
      const FloatRows scaled = reinterpret_cast<FloatRows>(size) * 0x1p112f;
      const IntRows with_sign =
          reinterpret_cast<IntRows>(scaled) | (wide & static_cast<int>(0x80000000u));
      value[half] = reinterpret_cast<FloatRows>(with_sign);
    } else {
      const IntRows whole = wide << 16;
      value[half] = reinterpret_cast<FloatRows>(whole);
    }
  }
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

/// (products + c) · unit, truncated toward zero to fp32, which is a normal number or zero.
[[gnu::always_inline]] inline void finish_column(const IntRows& products, const IntRows& c_terms,
                                                 const FloatRows& unit, FloatRows& c) {
  constexpr std::int64_t kept = ~((std::int64_t{1} << 29) - 1);  // of a double's fraction
  HalfOfFloats parts[2];
  for (int part = 0; part < 2; ++part) {
    HalfOfInts a, b;
    std::memcpy(&a, reinterpret_cast<const char*>(&products) + 16 * part, 16);
    std::memcpy(&b, reinterpret_cast<const char*>(&c_terms) + 16 * part, 16);
    const DoubleRows sum =
        __builtin_convertvector(a, DoubleRows) + __builtin_convertvector(b, DoubleRows);
    const LongRows cut = reinterpret_cast<LongRows>(sum) & kept;
    parts[part] = __builtin_convertvector(reinterpret_cast<DoubleRows>(cut), HalfOfFloats);
  }
  c = __builtin_shufflevector(parts[0], parts[1], 0, 1, 2, 3, 4, 5, 6, 7) * unit;
}

/// One group of one column: c ← c + the sum of k_block terms from `first` on, as TensorCoreRule
/// says. Lanes of `wrong` are set where it cannot be done here.
template <int k_block>
[[gnu::always_inline]] inline void add_to_column(const LeftRows& a, const float* b,
                                                 const std::int16_t* b_exponent, int first,
                                                 int kept_bits, FloatRows (&c)[2], IntRows& wrong) {
  ShortRows top16 = static_cast<std::int16_t>(2 * exponent_of_zero) + ShortRows{};
#pragma GCC unroll 16
  for (int k = first; k < first + k_block; ++k) {
    const ShortRows exponent = a.exponent[k] + b_exponent[k];
    top16 = exponent > top16 ? exponent : top16;
  }
  FloatRows scale[2], unit[2];
  IntRows c_terms[2], sums[2] = {};
  for (int half = 0; half < 2; ++half) {
    HalfOfShorts part;
    std::memcpy(&part, reinterpret_cast<const char*>(&top16) + 16 * half, 16);
    const IntRows bits = reinterpret_cast<IntRows>(c[half]);
    const IntRows magnitude = bits & 0x7fffffff;
    const IntRows biased = magnitude >> 23;
    const IntRows normal = (biased == 0 ? 1 + IntRows{} : biased) - 127;
    const IntRows exponent = magnitude == 0 ? exponent_of_zero + IntRows{} : normal;
    const IntRows of_products = __builtin_convertvector(part, IntRows);
    IntRows top = of_products > exponent ? of_products : exponent;
    wrong |= (biased == 255) | ((top < least_top) & (top > exponent_of_zero / 2));
    top = top > least_top ? top : least_top + IntRows{};
    const IntRows up = (kept_bits + 127 - top) << 23, down = (top - kept_bits + 127) << 23;
    scale[half] = reinterpret_cast<FloatRows>(up);
    unit[half] = reinterpret_cast<FloatRows>(down);
    c_terms[half] = __builtin_convertvector(c[half] * scale[half], IntRows);
  }
#pragma GCC unroll 16
  for (int k = first; k < first + k_block; ++k) {
    for (int half = 0; half < 2; ++half) {
      // Exact, then truncated: 16 of them fit 31 bits with kept_bits <= 25.
      const FloatRows term = a.value[k][half] * b[k] * scale[half];
      sums[half] += __builtin_convertvector(term, IntRows);
    }
  }
  for (int half = 0; half < 2; ++half) {
    finish_column(sums[half], c_terms[half], unit[half], c[half]);
  }
}

/// Whether products of numbers so large are of add_columns.
template <ElementType type>
[[gnu::always_inline]] inline bool can_add(const Extent& a, const Extent& b) {
  if (any(a.not_finite | b.not_finite)) return false;
  return type == ElementType::f16 || greatest(a.largest) + greatest(b.largest) <= most_top;
}

/// c += a·b of eight columns. Returns whether it could be done.
using AddColumns = bool (*)(const LeftRows& a, const RightColumns& b, TensorCoreRule rule,
                            FloatRows (&c)[8][2]);
template <int k_block>
[[gnu::always_inline]] inline bool add_in_blocks(const LeftRows& a, const RightColumns& b,
                                                 int kept_bits, FloatRows (&c)[8][2]) {
  IntRows wrong = {};
  for (int n = 0; n < 8; ++n) {
    for (int k = 0; k < 16; k += k_block) {
      add_to_column<k_block>(a, b.value[n], b.exponent[n], k, kept_bits, c[n], wrong);
    }
  }
  return !any(reinterpret_cast<ShortRows>(wrong));
}
[[gnu::always_inline]] inline bool add_columns(const LeftRows& a, const RightColumns& b,
                                               TensorCoreRule rule, FloatRows (&c)[8][2]) {
  if (rule.k_block == 16) return add_in_blocks<16>(a, b, rule.fraction_bits, c);
  return rule.k_block == 8 && add_in_blocks<8>(a, b, rule.fraction_bits, c);
}

/// Registers of a, whose elements (row lane / 4 + i % 2 · 8, k lane % 4 · 2 + {0, 1} + i / 2 · 8)
/// are.
template <ElementType type>
[[gnu::always_inline]] inline void take_left(const std::uint32_t* const (&registers)[4],
                                             LeftRows& a, Extent& extent) {
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
      split_numbers<type>(even, a.value[k], a.exponent[k], extent);
      split_numbers<type>(odd, a.value[k + 1], a.exponent[k + 1], extent);
    }
  }
}

/// Registers of b, whose elements (k lane % 4 · 2 + {0, 1} + i · 8, column lane / 4) are.
template <ElementType type>
[[gnu::always_inline]] inline void take_right(const std::uint32_t* const (&registers)[2],
                                              RightColumns& b, Extent& extent) {
  for (int i = 0; i < 2; ++i) {
    for (int n = 0; n < 8; n += 2) {
      ShortRows bits, exponents;
      FloatRows values[2];
      std::memcpy(&bits, registers[i] + 4 * n, sizeof bits);
      split_numbers<type>(bits, values, exponents, extent);
      for (int half = 0; half < 2; ++half) {
        std::memcpy(&b.value[n + half][8 * i], &values[half], 32);
        std::memcpy(&b.exponent[n + half][8 * i],
                    reinterpret_cast<const char*>(&exponents) + 16 * half, 16);
      }
    }
  }
}

/// A left matrix that was taken apart, and its registers: kernels multiply one by several right
/// ones in a row.
struct KnownLeft {
  alignas(64) std::uint32_t registers[4][32];
  LeftRows rows;
  Extent extent;
  bool is_there = false;

  template <ElementType type>
  [[gnu::always_inline]] void take(const std::uint32_t* const (&from)[4]) {
    bool same = is_there;
    for (int i = 0; i < 4; ++i) {
      same = same && std::memcmp(registers[i], from[i], sizeof registers[i]) == 0;
    }
    if (same) return;
    for (int i = 0; i < 4; ++i) std::memcpy(registers[i], from[i], sizeof registers[i]);
    extent = {};
    take_left<type>(from, rows, extent);
    is_there = true;
  }
};
/// By where their registers lie.
template <ElementType type>
KnownLeft& known_left(const std::uint32_t* registers) {
  thread_local KnownLeft known[16];
  const auto number = reinterpret_cast<std::uintptr_t>(registers) / sizeof(std::uint32_t[32]);
  return known[static_cast<std::uint32_t>(number * 0x9e3779b1u) >> 28];
}

template <ElementType type, AddColumns add>
[[gnu::always_inline]] inline bool multiply_registers(TensorCoreRule rule,
                                                      const MmaRegisters& registers) {
  KnownLeft& left = known_left<type>(registers.a[0]);
  left.take<type>(registers.a);
  const LeftRows& a = left.rows;
  const Extent& of_a = left.extent;
  RightColumns b;
  Extent of_b;
  take_right<type>(registers.b, b, of_b);
  if (!can_add<type>(of_a, of_b)) return false;
  FloatRows c[8][2];
  for (int i = 0; i < 4; ++i) {
    IntRows columns[4];
    transpose_rows(registers.c[i], columns);
    for (int j = 0; j < 4; ++j) std::memcpy(&c[2 * j + i % 2][i / 2], &columns[j], 32);
  }
  if (!add(a, b, rule, c)) return false;
  for (int i = 0; i < 4; ++i) {
    IntRows columns[4];
    for (int j = 0; j < 4; ++j) std::memcpy(&columns[j], &c[2 * j + i % 2][i / 2], 32);
    transpose_columns(columns, registers.d[i]);
  }
  return true;
}

/// Does columns in eights up to those that it cannot do. Returns how many.
template <ElementType type, AddColumns add>
[[gnu::always_inline]] inline int multiply_columns(TensorCoreRule rule,
                                                   const std::uint16_t (&a)[16][16],
                                                   const std::uint16_t (*b)[16], int count,
                                                   float (*c)[16]) {
  LeftRows rows;
  Extent of_a;
  for (int k = 0; k < 16; ++k) {
    ShortRows bits;
    for (int row = 0; row < 16; ++row) bits[row] = static_cast<std::int16_t>(a[row][k]);
    split_numbers<type>(bits, rows.value[k], rows.exponent[k], of_a);
  }
  for (int first = 0; first < count; first += 8) {
    RightColumns columns;
    Extent of_b;
    for (int n = 0; n < 8; ++n) {
      ShortRows bits;
      FloatRows values[2];
      std::memcpy(&bits, b[first + n], sizeof bits);
      ShortRows exponents;
      split_numbers<type>(bits, values, exponents, of_b);
      std::memcpy(columns.value[n], values, sizeof values);
      std::memcpy(columns.exponent[n], &exponents, sizeof exponents);
    }
    FloatRows sums[8][2];
    std::memcpy(sums, c[first], sizeof sums);
    if (!can_add<type>(of_a, of_b) || !add(rows, columns, rule, sums)) return first;
    std::memcpy(c[first], sums, sizeof sums);
  }
  return count;
}

}  // namespace lanescope::simt::columns

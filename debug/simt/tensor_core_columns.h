#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "debug/simt/numerics.h"
#include "debug/simt/tensor_core_factors.h"
#include "debug/simt/transpose.h"

/// Products of matrices in lanes of 16 rows, for numbers that are finite and whose terms lie in the
/// range of fp32: there a term truncated to whole units is a product of floats, scaled by a power
/// of two, converted to an integer. What it does not take goes the general way (tensor_core.cc).
namespace lanescope::simt::columns {

/// (products + c) · unit, truncated toward zero to fp32, which is a normal number or zero. Lanes of
/// `wrong` become negative where the sum does not fit.
[[gnu::always_inline]] inline void finish_column(const IntRows& products, const IntRows& c_terms,
                                                 const FloatRows& unit, FloatRows& c,
                                                 IntRows& wrong) {
  using Bits [[gnu::vector_size(32)]] = std::uint32_t;
  const Bits added = reinterpret_cast<Bits>(products) + reinterpret_cast<Bits>(c_terms);
  const IntRows sum = reinterpret_cast<IntRows>(added);
  const IntRows size = sum < 0 ? -sum : sum;
  const Bits rounded_size = reinterpret_cast<Bits>(size) + 64;  // 2^31 for more than floats hold
  wrong |= ((products ^ sum) & (c_terms ^ sum)) | reinterpret_cast<IntRows>(rounded_size);
  // To nearest; a unit less where that is larger.
  const FloatRows nearest = __builtin_convertvector(sum, FloatRows);
  const IntRows back = __builtin_convertvector(nearest, IntRows);
  const IntRows is_larger = (back < 0 ? -back : back) > size;
  const IntRows truncated = reinterpret_cast<IntRows>(nearest) + is_larger;
  c = reinterpret_cast<FloatRows>(truncated) * unit;
}

/// sum += a·b in units, which `scale` makes of it.
template <ElementType type>
[[gnu::always_inline]] inline void add_term(const FloatRows& a, float b, const IntRows& scale,
                                            IntRows& sum) {
  // Exact, then truncated: 16 of them fit 31 bits with kept_bits <= 25.
  if constexpr (type == ElementType::f16) {
    const FloatRows product = a * b;
    const IntRows moved = reinterpret_cast<IntRows>(product) + scale;
    sum += __builtin_convertvector(reinterpret_cast<FloatRows>(moved), IntRows);
  } else {
    sum += __builtin_convertvector(a * b * reinterpret_cast<FloatRows>(scale), IntRows);
  }
}

/// top ← the larger of it and a + the numbers k and 16 + k of b, 16 times each.
template <int k>
[[gnu::always_inline]] inline void raise_top(const Bytes& a, const Bytes& b, Bytes& top) {
  constexpr int j = 16 + k;
  const Bytes exponents =
      a + __builtin_shufflevector(b, b, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k,  //
                                  j, j, j, j, j, j, j, j, j, j, j, j, j, j, j, j);
  top = exponents > top ? exponents : top;
}

/// The largest exponents of the products of the columns n and n + 1 from `first` on.
template <int first, int... k>
[[gnu::always_inline]] inline void find_tops(const LeftRows<ElementType::f16>& a,
                                             const RightColumns<ElementType::f16>& b, int n,
                                             std::integer_sequence<int, k...>, IntRows (*tops)[2]) {
  Bytes of_b, top = std::int8_t{2 * byte_of_zero} + Bytes{};
  std::memcpy(&of_b, b.exponent[n], sizeof of_b);
  (raise_top<first + k>(a.exponent[first + k], of_b, top), ...);
  top = top < least_of_f16 ? std::int8_t{2 * byte_of_zero} + Bytes{} : top;
  for (int column = 0; column < 2; ++column) {
    HalfOfBytes part;
    std::memcpy(&part, reinterpret_cast<const char*>(&top) + 16 * column, 16);
    widen(__builtin_convertvector(part, ShortRows), tops[column]);
  }
}
template <int first, int... k>
[[gnu::always_inline]] inline void find_tops(const LeftRows<ElementType::bf16>& a,
                                             const RightColumns<ElementType::bf16>& b, int n,
                                             std::integer_sequence<int, k...>, IntRows (*tops)[2]) {
  for (int column = 0; column < 2; ++column) {
    ShortRows top = static_cast<std::int16_t>(2 * exponent_of_zero) + ShortRows{};
    for (const int i : {k...}) {
      const ShortRows exponent = a.exponent[first + i] + b.exponent[n + column][first + i];
      top = exponent > top ? exponent : top;
    }
    widen(top, tops[column]);
  }
}

/// One group of one column: c ← c + the sum of k_block terms from `first` on, as TensorCoreRule
/// says. Lanes of `wrong` become negative where it cannot be done here.
template <ElementType type, int k_block>
[[gnu::always_inline]] inline void add_to_column(const LeftRows<type>& a, const float* b,
                                                 const IntRows (&of_products)[2], int first,
                                                 int kept_bits, FloatRows (&c)[2], IntRows& wrong) {
  constexpr bool moves = type == ElementType::f16;
  constexpr int least = least_top<type>;
  FloatRows unit[2];
  // Two sums of each, which need not wait for each other.
  IntRows scale[2], c_terms[2], sums[2][2] = {};
  for (int half = 0; half < 2; ++half) {
    const IntRows magnitude = reinterpret_cast<IntRows>(c[half]) & 0x7fffffff;
    const IntRows of_c = (magnitude >> 23) - 127;
    IntRows top = of_products[half] > of_c ? of_products[half] : of_c;
    // Too small, and not of zeroes alone; inf or NaN; too large.
    IntRows is_number = -magnitude;
    if constexpr (!moves) is_number |= exponent_of_zero / 2 - of_products[half];
    const IntRows too_small = top - least;
    wrong |= (too_small & is_number) | (magnitude > 0x7f7fffff);
    if constexpr (moves) wrong |= most_top<type> - top;
    top = top > least ? top : least + IntRows{};
    const IntRows up = (kept_bits + 127 - top) << 23, down = (127 - kept_bits + top) << 23;
    unit[half] = reinterpret_cast<FloatRows>(down);
    c_terms[half] = __builtin_convertvector(c[half] * reinterpret_cast<FloatRows>(up), IntRows);
    scale[half] = moves ? (kept_bits + 2 * scaled_by<type> - top) << 23 : up;
  }
#pragma GCC unroll 16
  for (int k = first; k < first + k_block; ++k) {
    for (int half = 0; half < 2; ++half) {
      add_term<type>(a.value[k][half], b[k], scale[half], sums[k % 2][half]);
    }
  }
  for (int half = 0; half < 2; ++half) {
    finish_column(sums[0][half] + sums[1][half], c_terms[half], unit[half], c[half], wrong);
  }
}

/// Whether products of numbers so large are of add_columns.
template <ElementType type>
[[gnu::always_inline]] inline bool can_add(const Extent& a, const Extent& b) {
  if (any(a.not_finite | b.not_finite)) return false;
  return type == ElementType::f16 || greatest(a.largest) + greatest(b.largest) <= most_top<type>;
}

/// c += a·b of eight columns. Returns whether it could be done.
template <ElementType type>
using AddColumns = bool (*)(const LeftRows<type>& a, const RightColumns<type>& b,
                            TensorCoreRule rule, FloatRows (&c)[8][2]);

template <ElementType type, int k_block, int first>
[[gnu::always_inline]] inline void add_group(const LeftRows<type>& a, const RightColumns<type>& b,
                                             int kept_bits, FloatRows (&c)[8][2], IntRows& wrong) {
  IntRows tops[8][2];
  for (int n = 0; n < 8; n += 2) {
    find_tops<first>(a, b, n, std::make_integer_sequence<int, k_block>{}, &tops[n]);
  }
  for (int n = 0; n < 8; ++n) {
    add_to_column<type, k_block>(a, b.value[n], tops[n], first, kept_bits, c[n], wrong);
  }
}
template <ElementType type>
[[gnu::always_inline]] inline bool add_columns(const LeftRows<type>& a, const RightColumns<type>& b,
                                               TensorCoreRule rule, FloatRows (&c)[8][2]) {
  IntRows wrong = {};
  const int kept_bits = rule.fraction_bits;
  if (rule.k_block == 16) {
    add_group<type, 16, 0>(a, b, kept_bits, c, wrong);
  } else if (rule.k_block == 8) {
    add_group<type, 8, 0>(a, b, kept_bits, c, wrong);
    add_group<type, 8, 8>(a, b, kept_bits, c, wrong);
  } else {
    return false;
  }
  return !any(reinterpret_cast<ShortRows>(wrong < 0));
}

template <ElementType type, AddColumns<type> add>
[[gnu::always_inline]] inline bool multiply_registers(TensorCoreRule rule,
                                                      const MmaRegisters& registers) {
  KnownLeft<type>& left = known_left<type>(registers.a);
  left.take(registers.a);
  const LeftRows<type>& a = left.rows;
  const Extent& of_a = left.extent;
  RightColumns<type> b;
  Extent of_b;
  take_right<type>(registers.b, b, of_b);
  if (!can_add<type>(of_a, of_b)) return false;
  FloatRows c[8][2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    IntRows columns[4];
    transpose_rows(registers.c[i], columns);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) std::memcpy(&c[2 * j + i % 2][i / 2], &columns[j], 32);
  }
  if (!add(a, b, rule, c)) return false;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    IntRows columns[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) std::memcpy(&columns[j], &c[2 * j + i % 2][i / 2], 32);
    transpose_columns(columns, registers.d[i]);
  }
  return true;
}

/// Does columns in eights up to those that it cannot do. Returns how many.
template <ElementType type, AddColumns<type> add>
[[gnu::always_inline]] inline int multiply_columns(TensorCoreRule rule,
                                                   const std::uint16_t (&a)[16][16],
                                                   const std::uint16_t (*b)[16], int count,
                                                   float (*c)[16]) {
  LeftRows<type> rows;
  Extent of_a;
  for (int k = 0; k < 16; ++k) {
    ShortRows bits, exponents;
    for (int row = 0; row < 16; ++row) bits[row] = static_cast<std::int16_t>(a[row][k]);
    split_numbers<type>(bits, rows.value[k], exponents, of_a);
    keep_exponents(exponents, rows.exponent[k]);
  }
  for (int first = 0; first < count; first += 8) {
    RightColumns<type> columns;
    Extent of_b;
    for (int n = 0; n < 8; ++n) {
      ShortRows bits;
      FloatRows values[2];
      std::memcpy(&bits, b[first + n], sizeof bits);
      ShortRows exponents;
      split_numbers<type>(bits, values, exponents, of_b);
      std::memcpy(columns.value[n], values, sizeof values);
      keep_exponents(exponents, columns.exponent[n]);
    }
    FloatRows sums[8][2];
    std::memcpy(sums, c[first], sizeof sums);
    if (!can_add<type>(of_a, of_b) || !add(rows, columns, rule, sums)) return first;
    std::memcpy(c[first], sums, sizeof sums);
  }
  return count;
}

}  // namespace lanescope::simt::columns

// What a product of a warpgroup makes of its operands, of one warp's 16 rows.

#include "debug/simt/wgmma_arithmetic.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "debug/simt/tensor_core_scalar.h"

namespace lanescope::simt {
namespace {

using Words = std::uint16_t[16];

/// Eight columns at a time.
template <class Multiply>
void each_eight(int n, Multiply&& multiply) {
  for (int column = 0; column < n; column += 8) multiply(column);
}

void multiply_halves(const Words (&a)[16], const Words* b, int n, float (*d)[16]) {
  each_eight(n, [&](int column) {
    std::uint16_t columns[8][16], sums[8][16];
    std::memcpy(columns, b[column], sizeof columns);
    for (int i = 0; i < 128; ++i) sums[i / 16][i % 16] = f32_to_f16(d[column + i / 16][i % 16]);
    multiply_accumulate_f16(a, columns, sums);
    for (int i = 0; i < 128; ++i) d[column + i / 16][i % 16] = f16_to_f32(sums[i / 16][i % 16]);
  });
}

void multiply_tf32(const Words (&a)[16], const Words* b, int n, float (*d)[16]) {
  std::uint32_t rows[16][8];
  std::memcpy(rows, a, sizeof rows);
  each_eight(n, [&](int column) {
    std::uint32_t columns[8][8];
    float sums[8][16];
    std::memcpy(columns, b[column], sizeof columns);
    std::memcpy(sums, d[column], sizeof sums);
    multiply_accumulate_tf32(rows, columns, sums);
    std::memcpy(d[column], sums, sizeof sums);
  });
}

template <class A, class B>
void multiply_bytes(const Words (&a)[16], const Words* b, int n, bool saturates, float (*d)[16]) {
  using Limits = std::numeric_limits<std::int32_t>;
  A rows[16][32];
  std::memcpy(rows, a, sizeof rows);
  for (int column = 0; column < n; ++column) {
    B right[32];
    std::memcpy(right, b[column], sizeof right);
    for (int row = 0; row < 16; ++row) {
      std::int64_t sum = std::bit_cast<std::int32_t>(d[column][row]);
      for (int k = 0; k < 32; ++k) sum += int{rows[row][k]} * int{right[k]};
      if (saturates) sum = std::clamp<std::int64_t>(sum, Limits::min(), Limits::max());
      d[column][row] = std::bit_cast<float>(static_cast<std::int32_t>(sum));
    }
  }
}

void multiply_fp8(const Product& what, const Words (&a)[16], const Words* b, float (*d)[16]) {
  const auto format = [](FactorType type) {
    return type == FactorType::e4m3 ? Fp8::e4m3 : Fp8::e5m2;
  };
  std::uint8_t rows[16][32];
  std::memcpy(rows, a, sizeof rows);
  const auto* columns = reinterpret_cast<const std::uint8_t(*)[32]>(b);
  const auto add = what.sums == SumType::f16
                       ? multiply_accumulate_to_f16
                       : static_cast<decltype(&multiply_accumulate_to_f16)>(multiply_accumulate);
  add(format(what.a_type), format(what.b_type), rows, columns, what.n, d);
}

}  // namespace

void multiply(const Product& what, TensorCoreRule rule, Words (&a)[16], const Words* b,
              float (*d)[16]) {
  if (!what.accumulates) std::fill_n(d[0], 16 * what.n, 0.0f);
  const int bytes = bytes_of(what.a_type);
  for (auto& row : a) {
    for (int i = 0; what.negates && i < 16; ++i) {
      row[i] ^= bytes == 1 ? 0x8080 : bytes == 2 || i % 2 == 1 ? 0x8000 : 0;
    }
  }
  const bool signed_b = what.b_type == FactorType::s8;
  switch (what.a_type) {
    case FactorType::f16:
    case FactorType::bf16:
      if (what.sums == SumType::f16) return multiply_halves(a, b, what.n, d);
      return multiply_accumulate(
          what.a_type == FactorType::f16 ? ElementType::f16 : ElementType::bf16, rule, a, b, what.n,
          d);
    case FactorType::tf32:
      return multiply_tf32(a, b, what.n, d);
    case FactorType::e4m3:
    case FactorType::e5m2:
      return multiply_fp8(what, a, b, d);
    case FactorType::s8:
      return signed_b ? multiply_bytes<std::int8_t, std::int8_t>(a, b, what.n, what.saturates, d)
                      : multiply_bytes<std::int8_t, std::uint8_t>(a, b, what.n, what.saturates, d);
    case FactorType::u8:
      return signed_b ? multiply_bytes<std::uint8_t, std::int8_t>(a, b, what.n, what.saturates, d)
                      : multiply_bytes<std::uint8_t, std::uint8_t>(a, b, what.n, what.saturates, d);
  }
}

}  // namespace lanescope::simt

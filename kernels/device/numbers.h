#pragma once

#include <cstdint>
#include <type_traits>

#include "reference/element_type.h"

namespace lanescope::device {

/// IEEE binary16, held as its bits.
struct f16 {
  std::uint16_t bits;
  static constexpr ElementType type = ElementType::f16;
};

/// bfloat16, held as its bits.
struct bf16 {
  std::uint16_t bits;
  static constexpr ElementType type = ElementType::bf16;
};

/// E4M3, held as its bits: sign, 4 bits of exponent, 3 of fraction; no infinity, 0x7f and 0xff are
/// NaN (OCP 8-bit floating point specification).
struct e4m3 {
  std::uint8_t bits;
  static constexpr ElementType type = ElementType::e4m3;
};

/// fp32 under the interface of the 16-bit types.
struct f32 {
  float value;
  static constexpr ElementType type = ElementType::f32;
};

/// T, or what stands for it where it is too narrow: f16 for e4m3. Outputs and sites are of it, and
/// the operands of matrix products that take no e4m3.
template <class T>
using OperandType = std::conditional_t<std::is_same_v<T, e4m3>, f16, T>;

/// Which neighbours of a matrix lie side by side in memory: those of a row, or those of a column.
enum class Major : std::uint8_t { row, col };

inline constexpr float minus_infinity = -__builtin_huge_valf();
inline constexpr float ln2 = 0.693147180559945309f;
inline constexpr unsigned full_warp = 0xffffffffu;

}  // namespace lanescope::device

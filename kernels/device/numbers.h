#pragma once

#include <cstdint>

#include "debug/element_type.h"

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

/// fp32 under the interface of the 16-bit types.
struct f32 {
  float value;
  static constexpr ElementType type = ElementType::f32;
};

/// Which neighbours of a matrix lie side by side in memory: those of a row, or those of a column.
enum class Major : std::uint8_t { row, col };

inline constexpr float minus_infinity = -__builtin_huge_valf();
inline constexpr float ln2 = 0.693147180559945309f;
inline constexpr unsigned full_warp = 0xffffffffu;

}  // namespace lanescope::device

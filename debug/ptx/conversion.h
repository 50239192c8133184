#pragma once

#include <cstdint>

#include "debug/ptx/types.h"
#include "debug/simt/rounding.h"

namespace lanescope::ptx {

/// What one conversion does; it travels in Instruction::immediate.
struct Conversion {
  Type to, from;
  simt::Rounding rounding;
  bool whole : 1;  ///< .rni, .rzi, ...: to a whole number
  bool ftz : 1;
  bool saturates : 1;  ///< .sat
  bool finite : 1;     ///< .satfinite
  bool relu : 1;
};
static_assert(sizeof(Conversion) <= sizeof(std::int64_t));

/// Of floats of 32 bits and fewer, one or two to a register; null: of other types.
const simt::Format* format_of(Type type);

/// The bits that the conversion makes of `bits`, of one number.
std::uint64_t convert(const Conversion& conversion, std::uint64_t bits);

}  // namespace lanescope::ptx

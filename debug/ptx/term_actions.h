#pragma once

#include <cstdint>
#include <string_view>

#include "debug/ptx/types.h"

namespace lanescope::ptx {

/// What an instruction makes of terms.
enum class TermAction : std::uint8_t {
  forget,  ///< its results are none
  copy,
  pack,  ///< its sources, side by side
  part,  ///< of its source, side by side
  bits,  ///< of its source's bytes, by those of its result: shifts, masks, permutations
  select,
  convert,         ///< as it is, in other types
  convert_pair,    ///< two, the first source to the upper half
  convert_halves,  ///< both halves
  exponent,        ///< whole numbers are added to a float's exponent
  add,
  subtract,
  multiply,
  fuse,
  choose,  ///< the larger, or the smaller
  negate,
  divide,
  invert,
  exponential,
  logarithm,
};

/// With how many bytes a lane's results and sources have; and how many numbers lie in each.
struct TermStep {
  TermAction action = TermAction::forget;
  std::uint8_t to = 4, from = 4;
  std::uint8_t numbers = 1;
  Type made = Type::f32;  ///< of the numbers that it makes
};

/// Of an opcode with its modifiers. `packs`: copies registers into parts of another (1), or parts
/// of one (2).
TermStep term_step(std::string_view opcode, int packs, int parts);

}  // namespace lanescope::ptx

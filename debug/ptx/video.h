#pragma once

#include <cstdint>

#include "debug/ptx/program.h"

namespace lanescope::ptx {

/// In the order of their names, which decode_video has; a vset is one of the last six.
enum class Video : std::uint8_t {
  add,
  sub,
  difference,
  min,
  max,
  average,
  equal,
  unequal,
  less,
  less_equal,
  greater,
  greater_equal
};

/// What a SIMD video instruction does: the bits of Instruction::immediate.
struct VideoForm {
  /// Of `flags`.
  static constexpr std::uint8_t signed_result = 1, signed_a = 2, signed_b = 4, saturates = 8,
                                adds = 16;  ///< its results to c, in whose elements they stand else

  Video operation = Video::add;
  std::uint8_t flags = 0;
  std::uint16_t target = 0;  ///< a bit for each element that is computed
  /// A hexadecimal digit for each element: which it is of b:a.
  std::uint16_t a = 0, b = 0;
};
static_assert(sizeof(VideoForm) == sizeof(Instruction::immediate));

LaneOperation simd_video(int count);  ///< of 2 halves or 4 bytes

}  // namespace lanescope::ptx

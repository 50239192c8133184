#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reference/site.h"

namespace lanescope::simt {

/// What a kernel's first NaN is made of, where no operand was one.
struct NanOrigin {
  enum class Kind : std::uint8_t {
    none,
    difference,   ///< −inf − (−inf)
    start,        ///< the infinity of x − (−inf), where −inf is a constant of the code
    division,     ///< by zero, or the infinity of that
    empty,        ///< 0 / 0, or 0 times the infinity of 1 / 0
    exponential,  ///< an infinity that 2^x made of a finite number
    narrowing,    ///< an infinity that a conversion to fewer bits made of a finite number
    other,
  };
  Kind kind = Kind::none;
  /// Of the instruction that made it, or of its infinity where that is what went wrong; as far as
  /// the kernel's code says so.
  std::optional<Stage> stage;
  /// Where it was made: "x.cu:31, called at x.cu:90"; empty where there is none.
  std::string line;
};

}  // namespace lanescope::simt

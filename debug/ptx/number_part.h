#pragma once

#include <cstdint>

#include "debug/ptx/number_roles.h"

namespace lanescope::ptx {

/// What a function does of attention, as far as its numbers say.
enum class Part : std::uint8_t {
  attention,  ///< scores and what follows, or products that may be those
  softmax,    ///< of scores that are in memory, or of what splits have left
  combine,    ///< sums of partial results that powers of two weigh
  values,     ///< products of weights, which are wider, and values
  other,      ///< copies; or it is not known
};

/// `roles`: those of the function's numbers.
Part part_of(const Function& function, const NumberRoles& roles);

}  // namespace lanescope::ptx

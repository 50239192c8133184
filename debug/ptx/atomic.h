#pragma once

#include <cstddef>
#include <cstdint>

#include "debug/ptx/types.h"

namespace lanescope::ptx {

/// What atom, red and cp.reduce.async.bulk do with a location and a number.
enum class Update : std::uint8_t {
  add,
  min,
  max,
  inc,
  dec,
  bit_and,
  bit_or,
  bit_xor,
  exchange,
  compare
};

/// Updates the elements at `to`, in global memory, by those at `from`, each atomically.
void update_elements(Update update, Type type, std::byte* to, const std::byte* from,
                     std::size_t bytes);

}  // namespace lanescope::ptx

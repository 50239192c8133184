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

/// Updates the elements at `to` by those at `from`, each atomically. `ftz`: subnormal numbers of
/// .f32 count as zero, as for red, and not for cp.reduce.async.bulk.
void update_elements(Update update, Type type, std::byte* to, const std::byte* from,
                     std::size_t bytes, bool ftz);
/// Why there is no cp.reduce.async.bulk of this operation and type; nullptr where there is.
const char* fault_of_reduction(Update update, Type type);
/// The same of one into shared memory, and of red.async.
const char* fault_of_shared_reduction(Update update, Type type);

}  // namespace lanescope::ptx

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lanescope {

/// What a block of a kernel takes of a multiprocessor.
struct BlockNeeds {
  int threads = 32;
  int registers = 0;        ///< of a thread
  std::int64_t shared = 0;  ///< bytes, static and dynamic
};

/// How many blocks fit on one multiprocessor of `arch` ("sm_90", "sm_90a") at a time: 0 where not
/// even one does; nothing where the limits of `arch` are not known.
/// Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; registers
/// are handed out to a warp in units of 256, from a quarter of the multiprocessor each.
std::optional<int> blocks_per_multiprocessor(std::string_view arch, const BlockNeeds& needs);

}  // namespace lanescope

#pragma once

#include <cstdint>

#include "kernels/device/portable.h"

namespace lanescope::device {

/// How wgmma finds an operand in shared memory (PTX ISA, "Matrix Descriptor Format"): where it
/// begins, and the two distances in bytes that its layout asks for ("Asynchronous Warpgroup Level
/// Matrix Shared Memory Layout").
template <class Swizzle>
LANESCOPE_DEVICE std::uint64_t matrix_descriptor(std::uint32_t address, int leading_bytes,
                                                 int stride_bytes, Swizzle swizzle) {
  const auto field = [](std::uint32_t bytes) {
    return static_cast<std::uint64_t>((bytes & 0x3ffff) >> 4);
  };
  return field(address) | field(static_cast<std::uint32_t>(leading_bytes)) << 16 |
         field(static_cast<std::uint32_t>(stride_bytes)) << 32 |
         static_cast<std::uint64_t>(swizzle) << 62;
}

}  // namespace lanescope::device

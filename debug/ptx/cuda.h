#pragma once

#include <bit>

#include "debug/ptx/cudart_stream.h"

// CUDA's driver on the machine: the calls by which programs load modules and launch kernels while
// they run, on the same device as the runtime's (debug/ptx/cudart.h). Names, numbers and layouts
// are those of CUDA 13's driver API. There is one context, whatever is made current.

namespace lanescope::cudart {

using Result = int;           ///< CUresult
using Address = std::size_t;  ///< CUdeviceptr

/// The driver has fewer numbers than the runtime; those that both have are the same.
Result result_of(Error error);

inline void* memory_at(Address address) { return std::bit_cast<void*>(address); }

/// What a launch is asked for beside its sides: cudaLaunchAttribute, CUlaunchAttribute.
struct LaunchAttribute {
  int id;
  alignas(8) unsigned value[16];
};
void take_attributes(LaunchWish& wish, const LaunchAttribute* attributes, unsigned count);

}  // namespace lanescope::cudart

extern "C" lanescope::cudart::Result cuTensorMapEncodeTiled(
    void* map, int type, std::uint32_t rank, void* base, const std::uint64_t* size,
    const std::uint64_t* stride, const std::uint32_t* box, const std::uint32_t* element_stride,
    int interleave, int swizzle, int l2, int fill);

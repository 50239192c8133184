#pragma once

#include <cstddef>
#include <cstdint>

namespace lanescope {

/// What a marked kernel's run on a GPU needs besides the module (gates/process/marked_cuda.cc).
struct MarkedCuda {
  const char* ptx;  ///< the file of its PTX, rewritten (debug/ptx/rewrite_markers.h)
  /// The buffers of the markers, in the host's memory, which the device uses; without bytes: none.
  struct Buffer {
    void* data;
    std::int64_t bytes;
  } buffers[4];
};

/// Registers and bytes of local memory that a thread has in the module as it is, and rewritten.
struct MarkedResources {
  int registers, local, rewritten_registers, rewritten_local;
};

/// The shared library that has CUDA's launches pass through it, and the type of its one function
/// that is no name of CUDA's: from here on launches are those of the kernels in `marked` (nullptr:
/// the module's own). Returns why that cannot be, or nullptr.
inline constexpr const char* marked_cuda_library = "liblanescope_marked_cuda.so";
inline constexpr const char* marked_cuda_function = "lanescope_mark_launches";
using MarkedCudaFunction = const char*(const MarkedCuda* marked, MarkedResources* resources);

}  // namespace lanescope

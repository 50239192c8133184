#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "debug/ptx/runtime.h"

// The CUDA runtime of a machine without a GPU: what a program or module that is linked with
// libcudart finds in its place (gates/meson.build builds it under that name). The device behind it
// is debug/ptx/runtime.h. Names, numbers and layouts are those of CUDA 13's runtime API; streams
// and events do everything at once.

namespace lanescope::cudart {

using ptx::Device;
using Error = int;  ///< cudaError_t
using Stream = void*;
using Event = void*;

constexpr Error success = 0;
constexpr Error invalid_value = 1;
constexpr Error out_of_memory = 2;
constexpr Error invalid_configuration = 9;
constexpr Error invalid_symbol = 13;
constexpr Error invalid_device_function = 98;
constexpr Error invalid_device = 101;
constexpr Error invalid_ptx = 218;
constexpr Error file_not_found = 301;
constexpr Error invalid_handle = 400;
constexpr Error illegal_state = 401;
constexpr Error symbol_not_found = 500;
constexpr Error illegal_address = 700;
constexpr Error launch_timeout = 702;
constexpr Error assertion = 710;
constexpr Error misaligned_address = 716;
constexpr Error launch_failure = 719;
constexpr Error cooperative_too_large = 720;
constexpr Error not_supported = 801;
constexpr Error capture_unsupported = 900;
constexpr Error capture_invalidated = 901;

constexpr int multiprocessors = 132;
constexpr int shared_default = 48 << 10, shared_optin = 227 << 10;
constexpr std::size_t shared_of_multiprocessor = std::size_t{228} << 10;
constexpr std::size_t global_bytes = std::size_t{141} << 30;

struct Dim3 {
  unsigned x, y, z;
  std::array<std::uint32_t, 3> sides() const { return {x, y, z}; }
};

/// The device, for one thread at a time: until the end of the statement that asks for it.
class LockedDevice {
 public:
  LockedDevice();
  Device* operator->() const { return &Device::instance(); }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};
inline LockedDevice device() { return {}; }

/// Keeps an error for cudaGetLastError, and returns it.
Error note(Error error);
/// What the device's own failure is called; success where there is none.
Error failure();
/// What a call returns for whose function `find_kernel` has none: `otherwise` where the function
/// stands for no kernel.
Error no_kernel(const void* function, Error otherwise);
/// The host waits for the device: what such a call returns.
Error wait();

}  // namespace lanescope::cudart

extern "C" {
lanescope::cudart::Error cudaDriverGetVersion(int* version);
lanescope::cudart::Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                       const void* function,
                                                                       int threads,
                                                                       std::size_t shared);
}

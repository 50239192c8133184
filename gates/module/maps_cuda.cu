#include <cuda_runtime.h>

#include <cstdio>

#include "gates/module/maps_entry.h"

namespace {

__global__ void __launch_bounds__(32) maps_entry(lanescope::FragmentMaps* maps) {
  __shared__ lanescope::MapMemory memory;
  lanescope::measure_maps(memory, *maps);
}

}  // namespace

lanescope::ModuleStatus measure_fragment_maps(lanescope::FragmentMaps* maps, char* message,
                                              int message_bytes) {
  using lanescope::ModuleStatus;
  lanescope::FragmentMaps* on_device = nullptr;
  cudaError_t error = cudaMalloc(&on_device, sizeof *maps);
  if (error == cudaSuccess) {
    maps_entry<<<1, 32>>>(on_device);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) {
    error = cudaMemcpy(maps, on_device, sizeof *maps, cudaMemcpyDeviceToHost);
  }
  cudaFree(on_device);
  if (error == cudaSuccess) return ModuleStatus::ok;
  std::snprintf(message, static_cast<std::size_t>(message_bytes), "%s", cudaGetErrorString(error));
  return ModuleStatus::kernel_fault;
}

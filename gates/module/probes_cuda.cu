#include <cuda_runtime.h>

#include <cstdio>

#include "gates/module/probes_entry.h"

namespace {

using namespace lanescope;

__global__ void __launch_bounds__(32) probes_entry(const __grid_constant__ ProbeLaunch run) {
  probe_lane(run);
}

/// The probes on the device; `error` is the first that there was.
template <class Probe>
struct OnDevice {
  Probe* data = nullptr;
  std::size_t bytes = 0;

  OnDevice(const Probe* host, int count, cudaError_t& error)
      : bytes(static_cast<std::size_t>(count) * sizeof(Probe)) {
    if (error == cudaSuccess) error = cudaMalloc(&data, bytes);
    if (error == cudaSuccess) error = cudaMemcpy(data, host, bytes, cudaMemcpyHostToDevice);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data); }
  void copy_back(Probe* host, cudaError_t& error) const {
    if (error == cudaSuccess) error = cudaMemcpy(host, data, bytes, cudaMemcpyDeviceToHost);
  }
};

}  // namespace

ModuleStatus run_probes(ProbeLaunch* run) {
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDeviceProperties(&properties, 0);
  const OnDevice products(run->products, run->product_count, error);
  const OnDevice functions(run->functions, run->function_count, error);
  if (error == cudaSuccess) {
    ProbeLaunch on_device = *run;
    on_device.products = products.data;
    on_device.functions = functions.data;
    probes_entry<<<static_cast<unsigned>(probe_blocks(*run)), 32>>>(on_device);
    error = cudaGetLastError();
  }
  products.copy_back(run->products, error);
  functions.copy_back(run->functions, error);
  if (error != cudaSuccess) {
    std::snprintf(run->message, sizeof run->message, "%s", cudaGetErrorString(error));
    return ModuleStatus::kernel_fault;
  }
  std::snprintf(run->device, sizeof run->device, "%s", properties.name);
  std::snprintf(run->arch, sizeof run->arch, "sm_%d%d", properties.major, properties.minor);
  return ModuleStatus::ok;
}

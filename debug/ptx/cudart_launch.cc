// Modules, kernels and their launches.

#include <bit>
#include <cstdio>
#include <vector>

#include "debug/ptx/cudart.h"

namespace {

using namespace lanescope::cudart;

struct Configuration {
  Dim3 grid, block;
  std::size_t shared;
  Stream stream;
};
thread_local std::vector<Configuration> configurations;

Error launch(const void* function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared,
             Dim3 cluster = {1, 1, 1}) {
  const LockedDevice locked;
  Device::Kernel* kernel = locked->find_kernel(function);
  if (!kernel) return note(failure() != success ? failure() : invalid_device_function);
  switch (
      locked->launch(*kernel, grid.sides(), block.sides(), shared, arguments, cluster.sides())) {
    case Device::Outcome::ok:
      return success;
    case Device::Outcome::refused_sides:
      return note(invalid_configuration);
    case Device::Outcome::refused_memory:
      return note(invalid_value);
    default:
      // What a kernel does wrong is known when the host next waits for it.
      return locked->refused() ? note(failure()) : success;
  }
}

/// Its blocks cannot wait for each other: clusters run one after the other.
Error refuse_cooperation() {
  std::fputs("lanescope: cooperative launches are not executed\n", stderr);
  return note(not_supported);
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's
extern "C" {

void** __cudaRegisterFatBinary(void* fat_binary) {
  return std::bit_cast<void**>(static_cast<std::uintptr_t>(device()->add_module(fat_binary)) + 1);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) {
  device()->remove_module(static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1);
}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** handle, const char* function, char*, const char* name, int,
                            void*, void*, void*, void*, int*) {
  device()->add_kernel(static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1, function,
                       name);
}
void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, std::size_t, int,
                       int) {
  device()->add_variable(static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1, host,
                         name);
}

unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared, Stream stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
Error __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared, Stream* stream) {
  if (configurations.empty()) return note(invalid_value);
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *stream = top.stream;
  return success;
}
/// The handle of a kernel is the host function that stands for it.
Error __cudaGetKernel(const void** kernel, const void* function) {
  *kernel = function;
  return success;
}
Error __cudaLaunchKernel(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                         std::size_t shared, Stream) {
  return launch(kernel, grid, block, arguments, shared);
}
Error __cudaLaunchKernel_ptsz(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                              std::size_t shared, Stream) {
  return launch(kernel, grid, block, arguments, shared);
}
Error cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                       std::size_t shared, Stream) {
  return launch(function, grid, block, arguments, shared);
}
struct LaunchAttribute {  // cudaLaunchAttribute
  int id;
  alignas(8) unsigned value[16];
};
struct LaunchConfiguration {
  Dim3 grid, block;
  std::size_t shared;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
/// What its attributes say of order and of caches is so anyway: launches run one after the other.
Error cudaLaunchKernelExC(const LaunchConfiguration* c, const void* function, void** arguments) {
  constexpr int cooperative = 2, cluster_dimension = 4;
  Dim3 cluster = {1, 1, 1};
  for (unsigned i = 0; i < c->attribute_count; ++i) {
    const LaunchAttribute& attribute = c->attributes[i];
    const unsigned* sides = attribute.value;
    if (attribute.id == cooperative && sides[0] != 0) return refuse_cooperation();
    if (attribute.id == cluster_dimension) cluster = {sides[0], sides[1], sides[2]};
  }
  return launch(function, c->grid, c->block, arguments, c->shared, cluster);
}

Error cudaLaunchCooperativeKernel(const void*, Dim3, Dim3, void**, std::size_t, Stream) {
  return refuse_cooperation();
}
Error cudaLaunchHostFunc(Stream, void (*function)(void*), void* data) {
  function(data);
  return success;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

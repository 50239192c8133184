// Modules, kernels and their launches.

#include <bit>
#include <vector>

#include "debug/ptx/cuda.h"

namespace {

using namespace lanescope::cudart;

struct PushedLaunch {
  Dim3 grid, block;
  std::size_t shared;
  Stream stream;
};
thread_local std::vector<PushedLaunch> configurations;

/// A launch's arguments, for when they are wanted.
struct KeptArguments {
  std::vector<std::vector<std::byte>> values;
  KeptArguments(const lanescope::ptx::Program& program, void* const* arguments) {
    for (std::size_t i = 0; i < program.parameters.size(); ++i) {
      const auto* first = static_cast<const std::byte*>(arguments[i]);
      values.emplace_back(first, first + program.parameters[i].bytes);
    }
  }
  std::vector<void*> pointers() const {
    std::vector<void*> all;
    for (const auto& value : values) all.push_back(const_cast<std::byte*>(value.data()));
    return all;
  }
};

Device::Kernel* kernel_of(const void* function, Error& error) {
  const LockedDevice locked;
  Device::Kernel* kernel = locked->find_kernel(function);
  if (!kernel) error = no_kernel(function, invalid_device_function);
  return kernel;
}

Error launch_now(const LaunchWish& wish, void* const* arguments, Stream stream) {
  const LockedDevice locked;
  Error error = success;
  Device::Kernel* kernel = kernel_of(wish.function, error);
  if (!kernel) return error;
  if (wish.cooperative) {
    int resident = 0;
    const int threads = static_cast<int>(wish.block.x * wish.block.y * wish.block.z);
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, wish.function, threads,
                                                          wish.shared);
    if (error != success) return error;
    const std::int64_t room = std::int64_t{resident} * multiprocessors;
    if (std::int64_t{wish.grid.x} * wish.grid.y * wish.grid.z > room) {
      return note(cooperative_too_large);
    }
  }
  switch (locked->launch(*kernel, wish.grid.sides(), wish.block.sides(), wish.shared, arguments,
                         {wish.cluster.sides(), wish.cooperative, stream, wish.overlaps})) {
    case Device::Outcome::ok:
      return success;
    case Device::Outcome::refused_sides:
      return note(invalid_configuration);
    case Device::Outcome::refused_memory:
      return note(invalid_value);
    default:
      // What a kernel does wrong is known when the host next waits for it.
      return locked->refused() ? note(invalid_ptx) : success;
  }
}

}  // namespace

namespace lanescope::cudart {

/// What else they say of order and of caches is so anyway: launches run one after the other.
void take_attributes(LaunchWish& wish, const LaunchAttribute* attributes, unsigned count) {
  constexpr int cooperative = 2, cluster_dimension = 4, programmatic_serialization = 6;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned* sides = attributes[i].value;
    if (attributes[i].id == cooperative) wish.cooperative = sides[0] != 0;
    if (attributes[i].id == programmatic_serialization) wish.overlaps = sides[0] != 0;
    if (attributes[i].id == cluster_dimension) wish.cluster = {sides[0], sides[1], sides[2]};
  }
}

Error launch(const LaunchWish& wish, void* const* arguments, Stream stream) {
  if (!capture_of(stream)) return launch_now(wish, arguments, stream);
  Error error = success;
  const Device::Kernel* kernel = kernel_of(wish.function, error);
  if (!kernel) return error;
  return in_stream(stream, [wish, stream, kept = KeptArguments(*kernel->program, arguments)] {
    return launch_now(wish, kept.pointers().data(), stream);
  });
}

}  // namespace lanescope::cudart

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
/// The host reads and writes it where it lies, so its module is read at once.
void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, std::size_t,
                              int, int) {
  const LockedDevice locked;
  const int module = static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1;
  *host = locked->find_variable(module, name).first;
  locked->add_variable(module, *host, name);
}

unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared, Stream stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
Error __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared, Stream* stream) {
  if (configurations.empty()) return note(invalid_value);
  const PushedLaunch top = configurations.back();
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
                         std::size_t shared, Stream stream) {
  return launch({kernel, grid, block, shared}, arguments, stream);
}
Error __cudaLaunchKernel_ptsz(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                              std::size_t shared, Stream stream) {
  return launch({kernel, grid, block, shared}, arguments, stream);
}
Error cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                       std::size_t shared, Stream stream) {
  return launch({function, grid, block, shared}, arguments, stream);
}
struct LaunchConfiguration {
  Dim3 grid, block;
  std::size_t shared;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
Error cudaLaunchKernelExC(const LaunchConfiguration* c, const void* function, void** arguments) {
  LaunchWish wish{function, c->grid, c->block, c->shared};
  take_attributes(wish, c->attributes, c->attribute_count);
  return launch(wish, arguments, c->stream);
}

Error cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                                  std::size_t shared, Stream stream) {
  return launch({function, grid, block, shared, {1, 1, 1}, true}, arguments, stream);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

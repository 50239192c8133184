// The CUDA runtime of a machine without a GPU: what a module that is linked with libcudart finds in
// its place (gates/meson.build builds it under that name). The device behind it is
// debug/ptx/runtime.h. Names, numbers and layouts are those of CUDA 13's
// runtime API; streams and events do everything at once.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "debug/ptx/runtime.h"

namespace {

using lanescope::ptx::Device;
using Error = int;
using Stream = void*;
using Event = void*;

constexpr Error success = 0;
constexpr Error invalid_value = 1;
constexpr Error out_of_memory = 2;
constexpr Error invalid_symbol = 13;
constexpr Error invalid_device_function = 98;
constexpr Error invalid_device = 101;
constexpr Error invalid_ptx = 218;
constexpr Error launch_failure = 719;
constexpr Error not_supported = 801;

struct Dim3 {
  unsigned x, y, z;
  std::array<std::uint32_t, 3> sides() const { return {x, y, z}; }
};
struct Configuration {
  Dim3 grid, block;
  std::size_t shared;
  Stream stream;
};

thread_local Error last_error = success;
thread_local std::vector<Configuration> configurations;

Error note(Error error) {
  if (error != success) last_error = error;
  return error;
}

Device& device() { return Device::instance(); }

/// What the device's own failure is called.
Error failure() {
  if (device().failure().empty()) return success;
  return device().refused() ? invalid_ptx : launch_failure;
}

Error launch(Device::Kernel* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared) {
  if (!kernel) return note(failure() != success ? failure() : invalid_device_function);
  device().launch(*kernel, grid.sides(), block.sides(), shared, arguments);
  return note(failure());
}

struct Attributes {  // cudaFuncAttributes
  std::size_t shared_bytes, constant_bytes, local_bytes;
  int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared, carveout;
  int cluster[12];
  int reserved[16];
};

/// cudaDeviceProp up to what no kernel's host code asks for.
struct Properties {
  char name[256];
  char uuid[16], luid[8];
  unsigned luid_mask;
  std::size_t global_bytes, shared_bytes;
  int registers, warp;
  std::size_t pitch;
  int threads, thread_sides[3], grid_sides[3];
  std::size_t constant_bytes;
  int major, minor;
  std::size_t texture_alignment, texture_pitch;
  int multiprocessors, integrated, maps_host_memory;
  int textures[39];
  std::size_t surface_alignment;
  int concurrent, ecc, pci[3], tcc, engines, unified, bus_bits, l2_bytes, persisting_l2_bytes,
      threads_of_multiprocessor, priorities, l1[2];
  std::size_t shared_of_multiprocessor;
  int registers_of_multiprocessor, managed, boards[2], atomics, pageable, concurrent_managed,
      preemption, registered_pointer, cooperative;
  std::size_t shared_optin;
};

constexpr int multiprocessors = 132;
constexpr int shared_default = 48 << 10, shared_optin = 227 << 10;
constexpr std::size_t shared_of_multiprocessor = std::size_t{228} << 10;

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's
extern "C" {

void** __cudaRegisterFatBinary(void* fat_binary) {
  return std::bit_cast<void**>(static_cast<std::uintptr_t>(device().add_module(fat_binary)) + 1);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) {
  device().remove_module(static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1);
}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** handle, const char* function, char*, const char* name, int,
                            void*, void*, void*, void*, int*) {
  device().add_kernel(static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1, function,
                      name);
}
void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, std::size_t, int,
                       int) {
  device().add_variable(static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1, host, name);
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
  return launch(device().find_kernel(kernel), grid, block, arguments, shared);
}
Error __cudaLaunchKernel_ptsz(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                              std::size_t shared, Stream) {
  return launch(device().find_kernel(kernel), grid, block, arguments, shared);
}
Error cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                       std::size_t shared, Stream) {
  return launch(device().find_kernel(function), grid, block, arguments, shared);
}
struct LaunchConfiguration {
  Dim3 grid, block;
  std::size_t shared;
  Stream stream;
  void* attributes;
  unsigned attribute_count;
};
Error cudaLaunchKernelExC(const LaunchConfiguration* c, const void* function, void** arguments) {
  return launch(device().find_kernel(function), c->grid, c->block, arguments, c->shared);
}

Error cudaMalloc(void** memory, std::size_t bytes) {
  *memory = bytes == 0 ? nullptr : device().allocate(bytes);
  return bytes != 0 && !*memory ? note(out_of_memory) : success;
}
Error cudaMallocAsync(void** memory, std::size_t bytes, Stream) {
  return cudaMalloc(memory, bytes);
}
Error cudaMallocManaged(void** memory, std::size_t bytes, unsigned) {
  return cudaMalloc(memory, bytes);
}
Error cudaMallocHost(void** memory, std::size_t bytes) { return cudaMalloc(memory, bytes); }
Error cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return cudaMalloc(memory, bytes);
}
Error cudaFree(void* memory) {
  return !memory || device().release(memory) ? success : note(invalid_value);
}
Error cudaFreeAsync(void* memory, Stream) { return cudaFree(memory); }
Error cudaFreeHost(void* memory) { return cudaFree(memory); }
Error cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  device().map(memory, bytes);
  return success;
}
Error cudaHostUnregister(void* memory) {
  return device().unmap(memory) ? success : note(invalid_value);
}
Error cudaHostGetDevicePointer(void** on_device, void* memory, unsigned) {
  *on_device = memory;
  return success;
}
Error cudaMemcpy(void* to, const void* from, std::size_t bytes, int) {
  if (failure() != success) return note(failure());
  if (bytes > 0) std::memmove(to, from, bytes);
  device().note_write(to, from, bytes);
  return success;
}
Error cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, Stream) {
  return cudaMemcpy(to, from, bytes, kind);
}
Error cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                   std::size_t width, std::size_t height, int kind) {
  for (std::size_t row = 0; row < height; ++row) {
    const Error error = cudaMemcpy(static_cast<char*>(to) + row * to_pitch,
                                   static_cast<const char*>(from) + row * from_pitch, width, kind);
    if (error != success) return error;
  }
  return success;
}
Error cudaMemset(void* memory, int value, std::size_t bytes) {
  if (bytes > 0) std::memset(memory, value, bytes);
  device().note_write(memory, nullptr, bytes);
  return success;
}
Error cudaMemsetAsync(void* memory, int value, std::size_t bytes, Stream) {
  return cudaMemset(memory, value, bytes);
}
Error cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = std::size_t{141} << 30;
  *free = *total - device().allocated();
  return success;
}
Error cudaGetSymbolAddress(void** memory, const void* symbol) {
  *memory = device().find_variable(symbol).first;
  return *memory ? success : note(invalid_symbol);
}
Error cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  *bytes = device().find_variable(symbol).second;
  return *bytes != 0 ? success : note(invalid_symbol);
}
Error cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                         std::size_t offset, int) {
  const auto [memory, size] = device().find_variable(symbol);
  if (!memory || offset > size || bytes > size - offset) return note(invalid_symbol);
  std::memcpy(static_cast<char*>(memory) + offset, from, bytes);
  return success;
}
Error cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                           int) {
  const auto [memory, size] = device().find_variable(symbol);
  if (!memory || offset > size || bytes > size - offset) return note(invalid_symbol);
  std::memcpy(to, static_cast<const char*>(memory) + offset, bytes);
  return success;
}

Error cudaGetDeviceCount(int* count) {
  *count = 1;
  return success;
}
Error cudaGetDevice(int* id) {
  *id = 0;
  return success;
}
Error cudaSetDevice(int id) { return id == 0 ? success : note(invalid_device); }
Error cudaDeviceSynchronize() { return note(failure()); }
Error cudaDeviceReset() { return success; }
Error cudaDeviceSetLimit(int, std::size_t) { return success; }
Error cudaDeviceSetCacheConfig(int) { return success; }
Error cudaDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
Error cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

Error cudaGetDeviceProperties(Properties* p, int id) {
  if (id != 0) return note(invalid_device);
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "SIMT machine");
  p->global_bytes = std::size_t{141} << 30;
  p->shared_bytes = shared_default;
  p->registers = p->registers_of_multiprocessor = 65536;
  p->warp = 32;
  p->threads = 1024;
  p->thread_sides[0] = p->thread_sides[1] = 1024;
  p->thread_sides[2] = 64;
  p->grid_sides[0] = 0x7fffffff;
  p->grid_sides[1] = p->grid_sides[2] = 65535;
  p->constant_bytes = 64 << 10;
  p->major = 9;
  p->multiprocessors = multiprocessors;
  p->maps_host_memory = p->unified = p->managed = p->registered_pointer = 1;
  p->l2_bytes = 50 << 20;
  p->threads_of_multiprocessor = 2048;
  p->shared_of_multiprocessor = shared_of_multiprocessor;
  p->shared_optin = shared_optin;
  return success;
}
Error cudaGetDeviceProperties_v2(Properties* p, int id) { return cudaGetDeviceProperties(p, id); }
Error cudaDeviceGetAttribute(int* value, int attribute, int id) {
  if (id != 0) return note(invalid_device);
  static const std::map<int, int> known = {{1, 1024},
                                           {2, 1024},
                                           {3, 1024},
                                           {4, 64},
                                           {5, 0x7fffffff},
                                           {6, 65535},
                                           {7, 65535},
                                           {8, shared_default},
                                           {9, 64 << 10},
                                           {10, 32},
                                           {12, 65536},
                                           {13, 1980000},
                                           {16, multiprocessors},
                                           {36, 3201000},
                                           {37, 6144},
                                           {38, 50 << 20},
                                           {39, 2048},
                                           {75, 9},
                                           {76, 0},
                                           {81, 228 << 10},
                                           {82, 65536},
                                           {95, 0},
                                           {97, shared_optin}};
  const auto at = known.find(attribute);
  if (at == known.end()) return note(not_supported);
  *value = at->second;
  return success;
}
Error cudaFuncSetAttribute(const void* function, int attribute, int value) {
  // Dynamic shared memory: a launch says how much it takes.
  if (attribute == 8 && (value < 0 || value > shared_optin)) return note(invalid_value);
  static_cast<void>(function);
  return success;
}
Error cudaFuncGetAttributes(Attributes* attributes, const void* function) {
  const Device::Kernel* kernel = device().find_kernel(function);
  if (!kernel) return note(failure() != success ? failure() : invalid_device_function);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->shared_bytes = kernel->program->shared_bytes;
  attributes->local_bytes = kernel->program->local_bytes;
  attributes->max_threads = kernel->program->max_threads > 0 ? kernel->program->max_threads : 1024;
  attributes->ptx_version = attributes->binary_version = 90;
  attributes->max_dynamic_shared = shared_optin;
  return success;
}
/// By shared memory alone: how many registers a kernel takes is the compiler's to say.
Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                    std::size_t shared) {
  const Device::Kernel* kernel = device().find_kernel(function);
  if (!kernel) return note(failure() != success ? failure() : invalid_device_function);
  if (threads <= 0) return note(invalid_value);
  const std::size_t bytes = kernel->program->shared_bytes + shared + 1024;
  *blocks = std::min(2048 / threads, static_cast<int>(shared_of_multiprocessor / bytes));
  return success;
}
Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                             int threads, std::size_t shared,
                                                             unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

Error cudaStreamCreate(Stream* stream) {
  *stream = nullptr;
  return success;
}
Error cudaStreamCreateWithFlags(Stream* stream, unsigned) { return cudaStreamCreate(stream); }
Error cudaStreamCreateWithPriority(Stream* stream, unsigned, int) {
  return cudaStreamCreate(stream);
}
Error cudaStreamDestroy(Stream) { return success; }
Error cudaStreamSynchronize(Stream) { return note(failure()); }
Error cudaStreamQuery(Stream) { return note(failure()); }
Error cudaStreamWaitEvent(Stream, Event, unsigned) { return success; }
Error cudaEventCreate(Event* event) {
  *event = nullptr;
  return success;
}
Error cudaEventCreateWithFlags(Event* event, unsigned) { return cudaEventCreate(event); }
Error cudaEventDestroy(Event) { return success; }
Error cudaEventRecord(Event, Stream) { return success; }
Error cudaEventSynchronize(Event) { return note(failure()); }
Error cudaEventQuery(Event) { return note(failure()); }

// The machine has no time to measure, and no graphs.
Error cudaEventElapsedTime(float*, Event, Event) { return note(not_supported); }
Error cudaStreamBeginCapture(Stream, int) { return note(not_supported); }
Error cudaStreamEndCapture(Stream, void**) { return note(not_supported); }
Error cudaGraphInstantiate(void**, void*, unsigned long long) { return note(not_supported); }
Error cudaGraphLaunch(void*, Stream) { return note(not_supported); }
Error cudaGraphDestroy(void*) { return success; }
Error cudaGraphExecDestroy(void*) { return success; }

Error cudaGetLastError() {
  const Error error = last_error;
  last_error = success;
  return error;
}
Error cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(Error error) {
  switch (error) {
    case success:
      return "cudaSuccess";
    case invalid_value:
      return "cudaErrorInvalidValue";
    case out_of_memory:
      return "cudaErrorMemoryAllocation";
    case invalid_symbol:
      return "cudaErrorInvalidSymbol";
    case invalid_device_function:
      return "cudaErrorInvalidDeviceFunction";
    case invalid_device:
      return "cudaErrorInvalidDevice";
    case invalid_ptx:
      return "cudaErrorInvalidPtx";
    case launch_failure:
      return "cudaErrorLaunchFailure";
    case not_supported:
      return "cudaErrorNotSupported";
    default:
      return "cudaErrorUnknown";
  }
}
/// Of what went wrong on the device, all that is known of it.
const char* cudaGetErrorString(Error error) {
  switch (error) {
    case success:
      return "no error";
    case out_of_memory:
      return "out of memory";
    case invalid_device_function:
      return "the kernel is in no module";
    case invalid_ptx:
    case launch_failure:
      return device().failure().c_str();
    case not_supported:
      return "the SIMT machine does not do this";
    default:
      return "an argument is wrong";
  }
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

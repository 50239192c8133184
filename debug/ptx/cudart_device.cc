// The device and its kernels' attributes.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "debug/ptx/cudart.h"

namespace {

using namespace lanescope::cudart;

struct Attributes {  // cudaFuncAttributes
  std::size_t shared_bytes, constant_bytes, local_bytes;
  int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared, carveout;
  int must_have_cluster, cluster_sides[3], cluster_policy, non_portable_cluster;
  int reserved[16];
};
static_assert(sizeof(Attributes) == 144);  // the caller's, in which it is written

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

}  // namespace

extern "C" {

Error cudaGetDeviceCount(int* count) {
  *count = 1;
  return success;
}
Error cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return success;
}
Error cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return success;
}
Error cudaProfilerStart() { return success; }
Error cudaProfilerStop() { return success; }
Error cudaGetDevice(int* id) {
  *id = 0;
  return success;
}
Error cudaSetDevice(int id) { return id == 0 ? success : note(invalid_device); }
Error cudaDeviceSynchronize() { return wait(); }
Error cudaInitDevice(int id, unsigned, unsigned) { return cudaSetDevice(id); }
Error cudaSetDeviceFlags(unsigned) { return success; }
Error cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return success;
}
Error cudaDeviceReset() { return note(failure()); }
Error cudaDeviceSetLimit(int, std::size_t) { return success; }
Error cudaDeviceGetLimit(std::size_t* value, int) {
  *value = 0;
  return success;
}
Error cudaDeviceSetCacheConfig(int) { return success; }
Error cudaDeviceGetCacheConfig(int* config) {
  *config = 0;
  return success;
}
Error cudaDeviceSetSharedMemConfig(int) { return success; }
Error cudaFuncSetSharedMemConfig(const void*, int) { return success; }
Error cudaCtxResetPersistingL2Cache() { return success; }
Error cudaDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
Error cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

Error cudaGetDeviceProperties(Properties* p, int id) {
  if (id != 0) return note(invalid_device);
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "SIMT machine");
  p->global_bytes = global_bytes;
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
/// No name for it in CUDA 13, but programs that load CUDA's functions by name look for it.
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
                                           {95, 1},
                                           {97, shared_optin}};
  const auto at = known.find(attribute);
  if (at == known.end()) return note(not_supported);
  *value = at->second;
  return success;
}
Error cudaFuncSetAttribute(const void* function, int attribute, int value) {
  const LockedDevice locked;
  Device::Kernel* kernel = locked->find_kernel(function);
  if (!kernel) return no_kernel(function, invalid_device_function);
  constexpr int max_dynamic_shared = 8;
  if (attribute != max_dynamic_shared) return success;  // hints
  if (value < 0 || value + static_cast<int>(kernel->program->shared_bytes) > shared_optin) {
    return note(invalid_value);
  }
  kernel->most_dynamic_shared = static_cast<std::size_t>(value);
  return success;
}
Error cudaFuncSetCacheConfig(const void*, int) { return success; }
Error cudaFuncGetName(const char** name, const void* function) {
  const LockedDevice locked;
  const Device::Kernel* kernel = locked->find_kernel(function);
  if (!kernel) return no_kernel(function, invalid_device_function);
  *name = kernel->name.c_str();
  return success;
}
/// The handle of a kernel is the host function that stands for it.
Error cudaGetFuncBySymbol(const void** handle, const void* function) {
  *handle = function;
  return success;
}
Error cudaFuncGetAttributes(Attributes* attributes, const void* function) {
  const LockedDevice locked;
  const Device::Kernel* kernel = locked->find_kernel(function);
  if (!kernel) return no_kernel(function, invalid_device_function);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->shared_bytes = kernel->program->shared_bytes;
  attributes->local_bytes = kernel->program->local_bytes;
  attributes->max_threads = kernel->program->max_threads > 0 ? kernel->program->max_threads : 1024;
  attributes->ptx_version = kernel->program->architecture;
  attributes->binary_version = 90;
  const auto& cluster = kernel->program->cluster;
  std::copy(cluster.begin(), cluster.end(), attributes->cluster_sides);
  attributes->max_dynamic_shared = static_cast<int>(kernel->most_dynamic_shared);
  return success;
}
/// By threads and shared memory alone: how many registers a kernel takes is the compiler's to say.
Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                    std::size_t shared) {
  const LockedDevice locked;
  const Device::Kernel* kernel = locked->find_kernel(function);
  if (!kernel) return no_kernel(function, invalid_device_function);
  if (threads <= 0) return note(invalid_value);
  constexpr int most_blocks = 32;
  constexpr std::size_t of_system = 1024;  // shared memory of each block
  const std::size_t bytes = kernel->program->shared_bytes + shared + of_system;
  *blocks = std::min({most_blocks, 2048 / ((threads + 31) / 32 * 32),
                      static_cast<int>(shared_of_multiprocessor / bytes)});
  return success;
}
Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                             int threads, std::size_t shared,
                                                             unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

Error cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function,
                                                int blocks, int) {
  const LockedDevice locked;
  const Device::Kernel* kernel = locked->find_kernel(function);
  if (!kernel) return no_kernel(function, invalid_device_function);
  if (blocks <= 0) return note(invalid_value);
  constexpr std::size_t of_system = 1024;
  const std::size_t fixed = kernel->program->shared_bytes + of_system;
  const std::size_t each = shared_of_multiprocessor / static_cast<std::size_t>(blocks);
  *bytes = each > fixed ? std::min<std::size_t>(each - fixed, shared_optin) : 0;
  return success;
}
Error cudaOccupancyMaxPotentialClusterSize(int* blocks, const void*, const void*) {
  *blocks = 8;  // that any device takes
  return success;
}

/// Blocks of one multiprocessor do not share a cluster here.
Error cudaOccupancyMaxActiveClusters(int* clusters, const void*, const void*) {
  *clusters = multiprocessors;
  return success;
}

}  // extern "C"

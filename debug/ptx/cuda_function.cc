// What the driver says of kernels, of how many of their blocks fit, and of what
// never changes here.

#include "debug/ptx/cuda.h"

extern "C" {
using lanescope::cudart::Error;
using lanescope::cudart::Result;
using lanescope::cudart::Stream;
Error cudaDeviceCanAccessPeer(int* can, int device, int peer);
Error cudaDeviceGetLimit(std::size_t* value, int limit);
Error cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
Error cudaFuncGetName(const char** name, const void* function);
Error cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function,
                                                int blocks, int threads);
Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                    std::size_t shared);
Error cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const void* launch);
Error cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function, const void* launch);
Error cudaStreamGetFlags(Stream stream, unsigned* flags);
Error cudaStreamGetPriority(Stream stream, int* priority);
Error cudaStreamIsCapturing(Stream stream, int* status);
Result cuDeviceGetAttribute(int* value, int attribute, int id);
Result cuFuncGetAttribute(int* value, int attribute, const void* function);
}

namespace {

using namespace lanescope::cudart;

constexpr int multiprocessor_count = 16;  ///< CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

}  // namespace

extern "C" {

Result cuFuncGetName(const char** name, const void* function) {
  return result_of(cudaFuncGetName(name, function));
}
Result cuKernelGetName(const char** name, const void* kernel) {
  return cuFuncGetName(name, kernel);
}
Result cuKernelGetAttribute(int* value, int attribute, const void* kernel, int) {
  return cuFuncGetAttribute(value, attribute, kernel);
}
Result cuKernelSetCacheConfig(const void*, int, int) { return success; }
Result cuFuncIsLoaded(int* state, const void*) {
  *state = 1;  // CU_FUNCTION_LOADING_STATE_LOADED
  return success;
}
Result cuFuncLoad(const void*) { return success; }
Result cuModuleGetLoadingMode(int* mode) {
  *mode = 1;  // CU_MODULE_EAGER_LOADING
  return success;
}

Result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                            int threads, std::size_t shared,
                                                            unsigned) {
  return result_of(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared));
}
/// The threads of a block of which the most fit, whole warps; of equals the
/// largest.
Result cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, const void* function,
                                                 std::size_t (*shared_of)(int threads),
                                                 std::size_t shared, int limit, unsigned) {
  int most = 0, multiprocessors = 0, fit = 0;
  if (const Result error = cuFuncGetAttribute(&most, 0, function); error != success) return error;
  cuDeviceGetAttribute(&multiprocessors, multiprocessor_count, 0);
  if (limit > 0 && limit < most) most = limit;
  int best = -1;
  for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
    const Error error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &fit, function, threads, shared_of ? shared_of(threads) : shared);
    if (error != success) return result_of(error);
    if (fit * threads <= best) continue;
    best = fit * threads;
    *block = threads;
    *grid = fit * multiprocessors;
  }
  return success;
}
Result cuOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* function,
                                        std::size_t (*shared_of)(int threads), std::size_t shared,
                                        int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared, limit,
                                                   0);
}
Result cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function, int blocks,
                                               int threads) {
  return result_of(cudaOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads));
}
Result cuOccupancyMaxPotentialClusterSize(int* blocks, const void* function, const void* launch) {
  return result_of(cudaOccupancyMaxPotentialClusterSize(blocks, function, launch));
}
Result cuOccupancyMaxActiveClusters(int* clusters, const void* function, const void* launch) {
  return result_of(cudaOccupancyMaxActiveClusters(clusters, function, launch));
}

Result cuDeviceComputeCapability(int* major, int* minor, int) {
  *major = 9;
  *minor = 0;
  return success;
}
Result cuDeviceCanAccessPeer(int* can, int device, int peer) {
  return result_of(cudaDeviceCanAccessPeer(can, device, peer));
}
Result cuCtxGetLimit(std::size_t* value, int limit) {
  return result_of(cudaDeviceGetLimit(value, limit));
}
Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return result_of(cudaDeviceGetStreamPriorityRange(least, greatest));
}
Result cuCtxGetFlags(unsigned* flags) {
  *flags = 0;
  return success;
}
Result cuStreamGetPriority(Stream stream, int* priority) {
  return result_of(cudaStreamGetPriority(stream, priority));
}
Result cuStreamGetFlags(Stream stream, unsigned* flags) {
  return result_of(cudaStreamGetFlags(stream, flags));
}
Result cuStreamIsCapturing(Stream stream, int* status) {
  return result_of(cudaStreamIsCapturing(stream, status));
}

}  // extern "C"

// The driver's memory.

#include <cstring>
#include <vector>

#include "debug/ptx/cuda.h"

extern "C" {
lanescope::cudart::Error cudaMalloc(void** memory, std::size_t bytes);
lanescope::cudart::Error cudaMallocHost(void** memory, std::size_t bytes);
lanescope::cudart::Error cudaMallocManaged(void** memory, std::size_t bytes, unsigned flags);
lanescope::cudart::Error cudaFree(void* memory);
lanescope::cudart::Error cudaHostRegister(void* memory, std::size_t bytes, unsigned flags);
lanescope::cudart::Error cudaHostUnregister(void* memory);
}

namespace {

using namespace lanescope::cudart;

// cudaMemcpyKind
constexpr int to_device = 1, from_device = 2, on_device = 3, by_address = 4;

Result copy_in(Stream stream, void* to, const void* from, std::size_t bytes, int kind) {
  return result_of(in_stream(stream, [=] { return copy(to, from, bytes, kind); }));
}

/// Every element the same.
template <class T>
Result fill_in(Stream stream, Address to, T value, std::size_t count) {
  return result_of(in_stream(stream, [=] {
    const std::vector<T> values(count, value);
    return copy(memory_at(to), values.data(), count * sizeof(T), to_device);
  }));
}

}  // namespace

extern "C" {

Result cuMemAlloc_v2(Address* memory, std::size_t bytes) {
  if (!memory || bytes == 0) return invalid_value;
  return result_of(cudaMalloc(reinterpret_cast<void**>(memory), bytes));
}
Result cuMemAllocAsync(Address* memory, std::size_t bytes, Stream) {
  return cuMemAlloc_v2(memory, bytes);
}
Result cuMemAllocManaged(Address* memory, std::size_t bytes, unsigned flags) {
  return result_of(cudaMallocManaged(reinterpret_cast<void**>(memory), bytes, flags));
}
Result cuMemFree_v2(Address memory) { return result_of(cudaFree(memory_at(memory))); }
Result cuMemFreeAsync(Address memory, Stream) { return cuMemFree_v2(memory); }
Result cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  return result_of(cudaMallocHost(memory, bytes));
}
Result cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return cuMemAllocHost_v2(memory, bytes);
}
Result cuMemFreeHost(void* memory) { return result_of(cudaFree(memory)); }
Result cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  return result_of(cudaHostRegister(memory, bytes, flags));
}
Result cuMemHostUnregister(void* memory) { return result_of(cudaHostUnregister(memory)); }
Result cuMemHostGetDevicePointer_v2(Address* on_it, void* memory, unsigned) {
  *on_it = reinterpret_cast<Address>(memory);
  return success;
}

Result cuMemcpy(Address to, Address from, std::size_t bytes) {
  return copy_in(nullptr, memory_at(to), memory_at(from), bytes, by_address);
}
Result cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  return copy_in(stream, memory_at(to), memory_at(from), bytes, by_address);
}
Result cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
  return copy_in(nullptr, memory_at(to), from, bytes, to_device);
}
Result cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, Stream stream) {
  return copy_in(stream, memory_at(to), from, bytes, to_device);
}
Result cuMemcpyDtoH_v2(void* to, Address from, std::size_t bytes) {
  return copy_in(nullptr, to, memory_at(from), bytes, from_device);
}
Result cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, Stream stream) {
  return copy_in(stream, to, memory_at(from), bytes, from_device);
}
Result cuMemcpyDtoD_v2(Address to, Address from, std::size_t bytes) {
  return copy_in(nullptr, memory_at(to), memory_at(from), bytes, on_device);
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, Stream stream) {
  return copy_in(stream, memory_at(to), memory_at(from), bytes, on_device);
}

Result cuMemsetD8_v2(Address to, unsigned char value, std::size_t count) {
  return fill_in(nullptr, to, value, count);
}
Result cuMemsetD16_v2(Address to, unsigned short value, std::size_t count) {
  return fill_in(nullptr, to, value, count);
}
Result cuMemsetD32_v2(Address to, unsigned value, std::size_t count) {
  return fill_in(nullptr, to, value, count);
}
Result cuMemsetD8Async(Address to, unsigned char value, std::size_t count, Stream stream) {
  return fill_in(stream, to, value, count);
}
Result cuMemsetD16Async(Address to, unsigned short value, std::size_t count, Stream stream) {
  return fill_in(stream, to, value, count);
}
Result cuMemsetD32Async(Address to, unsigned value, std::size_t count, Stream stream) {
  return fill_in(stream, to, value, count);
}

Result cuPointerGetAttribute(void* value, int attribute, Address address) {
  constexpr int memory_type = 2, device_pointer = 3, host_pointer = 4, ordinal = 9;  // CUDA's
  constexpr unsigned of_device = 2;
  if (!device()->holds(memory_at(address), 0)) return invalid_value;
  switch (attribute) {
    case memory_type:
      std::memcpy(value, &of_device, sizeof of_device);
      return success;
    case device_pointer:
    case host_pointer:
      std::memcpy(value, &address, sizeof address);
      return success;
    case ordinal:
      std::memset(value, 0, sizeof(int));
      return success;
    default:
      return not_supported;
  }
}

}  // extern "C"

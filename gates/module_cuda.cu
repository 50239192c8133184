#include <cuda_runtime.h>

#include <cstdio>

#include "gates/module_entry.h"
#include "gates/time_cuda.h"

namespace lanescope {

template <class K>
__global__ void __launch_bounds__(K::threads)
    kernel_entry(const __grid_constant__ KernelArguments arguments) {
  extern __shared__ __align__(1024) unsigned char memory[];
  // Causal: the last query rows have most to do, so they start first.
  const std::int64_t at = device::block();
  const std::int64_t block = arguments.attention.causal ? gridDim.x - 1 - at : at;
  run_lane<K>(arguments, *reinterpret_cast<typename K::SharedMemory*>(memory), block);
}

template <class K>
__global__ void __launch_bounds__(K::combine_threads)
    combine_entry(const __grid_constant__ KernelArguments arguments) {
  combine_lane<K>(arguments);
}

namespace {

/// Device memory that goes back by itself, or host memory that the device uses.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (host_) {
      cudaHostUnregister(host_);
    } else {
      cudaFree(data_);
    }
  }

  cudaError_t fill(const void* host, std::int64_t bytes) {
    bytes_ = static_cast<std::size_t>(bytes);
    if (bytes_ == 0) return cudaSuccess;
    const cudaError_t error = cudaMalloc(&data_, bytes_);
    return error != cudaSuccess ? error : cudaMemcpy(data_, host, bytes_, cudaMemcpyHostToDevice);
  }
  /// Has the device use host memory, which outlives its faults.
  cudaError_t map(void* host, std::int64_t bytes) {
    if (bytes == 0) return cudaSuccess;
    cudaError_t error =
        cudaHostRegister(host, static_cast<std::size_t>(bytes), cudaHostRegisterMapped);
    if (error != cudaSuccess) return error;
    host_ = host;
    return cudaHostGetDevicePointer(&data_, host, 0);
  }
  cudaError_t copy_back(void* host) const {
    return bytes_ == 0 ? cudaSuccess : cudaMemcpy(host, data_, bytes_, cudaMemcpyDeviceToHost);
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  void* host_ = nullptr;
  std::size_t bytes_ = 0;
};

ModuleStatus fail(ModuleRun* run, cudaError_t error, const char* what) {
  std::snprintf(run->message, static_cast<std::size_t>(run->message_bytes), "%s: %s (%s)", what,
                cudaGetErrorString(error), cudaGetErrorName(error));
  return error == cudaErrorMemoryAllocation ? ModuleStatus::no_memory : ModuleStatus::kernel_fault;
}

/// Both passes, as far as the gate has them, one behind the other in a stream.
template <class K>
cudaError_t launch_passes(const ModuleRun& run, const KernelArguments& arguments,
                          cudaStream_t stream) {
  if constexpr (launches_first<K, gate>) {
    constexpr int shared = sizeof(typename K::SharedMemory);
    const cudaError_t error =
        cudaFuncSetAttribute(kernel_entry<K>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (error != cudaSuccess) return error;
    kernel_entry<K><<<static_cast<unsigned>(run.blocks), K::threads, shared, stream>>>(arguments);
  }
  if constexpr (launches_second<K, gate>) {
    combine_entry<K>
        <<<static_cast<unsigned>(run.combine_blocks), K::combine_threads, 0, stream>>>(arguments);
  }
  return cudaGetLastError();
}

}  // namespace

/// For the memory checker, which there is on sim only.
bool locate_shared(std::int64_t, const char**, int*, int*) { return false; }

ModuleStatus describe_device(char* name, int name_bytes, char* arch, int arch_bytes) {
  int device = 0;
  cudaDeviceProp properties;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) {
    std::snprintf(name, static_cast<std::size_t>(name_bytes), "%s", cudaGetErrorString(error));
    return ModuleStatus::no_device;
  }
  std::snprintf(name, static_cast<std::size_t>(name_bytes), "%s", properties.name);
  std::snprintf(arch, static_cast<std::size_t>(arch_bytes), "sm_%d%d", properties.major,
                properties.minor);
  return ModuleStatus::ok;
}

namespace {

template <class Function>
ModulePass describe(const char* name, Function function, int threads, int shared) {
  int blocks = -1;
  cudaError_t error =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, shared);
  }
  return {name, threads, shared, error == cudaSuccess ? blocks : -1};
}

/// Of the gate's passes.
template <class K>
int describe_passes_of(ModulePass* passes, int most) {
  int count = 0;
  if constexpr (launches_first<K, gate>) {
    constexpr int shared = sizeof(typename K::SharedMemory);
    if (count < most) passes[count++] = describe("kernel", kernel_entry<K>, K::threads, shared);
  }
  if constexpr (launches_second<K, gate>) {
    if (count < most) {
      passes[count++] = describe("combine", combine_entry<K>, K::combine_threads, 0);
    }
  }
  return count;
}

}  // namespace

int describe_passes(ModulePass* passes, int most) {
  return describe_passes_of<Kernel>(passes, most);
}

ModuleStatus run_module(ModuleRun* run) {
  const std::int64_t row = std::int64_t{head_dim} * size_of(Element::type);
  const std::int64_t queries = std::int64_t{run->batch} * run->heads * run->len_q;
  const std::int64_t keys = std::int64_t{run->batch} * run->heads_kv * run->len_kv;
  const std::int64_t o_row = std::int64_t{head_dim} * size_of(operand_type(Element::type));
  const std::int64_t of_heads = run->q_scale ? std::int64_t{run->batch} * run->heads * 4 : 0;
  const std::int64_t of_heads_kv = run->q_scale ? std::int64_t{run->batch} * run->heads_kv * 4 : 0;
  Buffer q, k, v, q_scale, k_scale, v_scale, o, lse, injected, left, traced, partials;
  const struct {
    Buffer& buffer;
    const void* host;
    std::int64_t bytes;
  } inputs[] = {{q, run->q, queries * row},
                {k, run->k, keys * row},
                {v, run->v, keys * row},
                {q_scale, run->q_scale, of_heads},
                {k_scale, run->k_scale, of_heads_kv},
                {v_scale, run->v_scale, of_heads_kv},
                {injected, run->injected, run->injected_bytes}};
  const struct {
    Buffer& buffer;
    void* host;
    std::int64_t bytes;
  } results[] = {{o, run->o, queries * o_row},
                 {lse, run->lse, queries * static_cast<std::int64_t>(sizeof(float))},
                 {left, run->left, run->left_bytes},
                 {traced, run->traced, run->traced_bytes},
                 {partials, run->partials, run->partials_bytes}};
  for (const auto& input : inputs) {
    const cudaError_t error = input.buffer.fill(input.host, input.bytes);
    if (error != cudaSuccess) return fail(run, error, "copying the inputs to the device");
  }
  for (const auto& result : results) {
    const cudaError_t error = run->surviving ? result.buffer.map(result.host, result.bytes)
                                             : result.buffer.fill(result.host, result.bytes);
    if (error != cudaSuccess) return fail(run, error, "making room for the results");
  }
  ModuleRun on_device = *run;
  on_device.q = q.data();
  on_device.k = k.data();
  on_device.v = v.data();
  on_device.q_scale = static_cast<const float*>(q_scale.data());
  on_device.k_scale = static_cast<const float*>(k_scale.data());
  on_device.v_scale = static_cast<const float*>(v_scale.data());
  on_device.o = o.data();
  on_device.lse = static_cast<float*>(lse.data());
  on_device.injected = injected.data();
  on_device.left = left.data();
  on_device.traced = traced.data();
  on_device.partials = partials.data();

  cudaError_t error = cudaSuccess;
#if LANESCOPE_TRACE == 2
  // Text of all lanes waits on the device until the kernel ends.
  error = cudaDeviceSetLimit(cudaLimitPrintfFifoSize, std::size_t{1} << 30);
  if (error != cudaSuccess) return fail(run, error, "reserving the printf buffer");
#endif
  const auto launch = [&, arguments = arguments_of(on_device)](cudaStream_t stream) {
    return launch_passes<Kernel>(on_device, arguments, stream);
  };
  error = launch(nullptr);
  if (error != cudaSuccess) return fail(run, error, "launching the kernel");
  error = cudaDeviceSynchronize();
  if (error != cudaSuccess) return fail(run, error, "running the kernel");
  if (run->timing) {
    error = time_launches(launch, *run->timing);
    if (error != cudaSuccess) return fail(run, error, "timing the kernel");
  }

  for (const auto& result : results) {
    error = result.buffer.copy_back(result.host);
    if (error != cudaSuccess) return fail(run, error, "copying the results back");
  }
  return ModuleStatus::ok;
}

}  // namespace lanescope

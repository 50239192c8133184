#include <cuda_runtime.h>

#include <array>
#include <cstdio>

#include "gates/module/module_entry.h"
#include "gates/module/time_cuda.h"

namespace lanescope {

/// Blocks of kernel K that must fit on a multiprocessor, so that it has the registers that are left
/// for them; 0: any number.
template <class K>
inline constexpr int blocks_per_multiprocessor = 0;
template <class K>
requires requires { K::blocks_per_multiprocessor; }
inline constexpr int blocks_per_multiprocessor<K> = K::blocks_per_multiprocessor;

/// Whether a grid comes up while the one before it in its stream ends (CUDA Programming Guide,
/// "Programmatic Dependent Launch and Synchronization"): where all that is compiled for can.
constexpr bool grids_overlap() {
  for (const int arch : {__CUDA_ARCH_LIST__}) {
    if (arch < 900) return false;
  }
  return true;
}

/// Returns when the grid before this one has ended and what it wrote is there; the next one may
/// then come up where there is room, and waits here in turn (PTX ISA, griddepcontrol).
__device__ __forceinline__ void wait_for_previous_grid() {
  if constexpr (grids_overlap()) {
    asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
  }
}

template <class K>
__global__ void __launch_bounds__(K::threads, blocks_per_multiprocessor<K>)
    kernel_entry(const __grid_constant__ KernelArguments<K> arguments) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& smem = *reinterpret_cast<typename K::SharedMemory*>(memory);
  set_up<K>(arguments, smem);
  wait_for_previous_grid();
  std::int64_t block = device::block();
  // Causal: the last query rows have most to do, so they start first.
  if (!is_persistent<K> && arguments.attention.causal) block = gridDim.x - 1 - block;
  run_lane<K>(arguments, smem, block);
}

template <class K>
__global__ void __launch_bounds__(K::combine_threads)
    combine_entry(const __grid_constant__ KernelArguments<K> arguments) {
  wait_for_previous_grid();
  combine_lane<K>(arguments);
}

namespace {

/// Device memory that goes back by itself, or host memory that the device uses; with its guards.
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

  cudaError_t fill(const ModuleBuffer& buffer) {
    if (buffer.bytes == 0) return cudaSuccess;
    bytes_ = guarded_bytes(buffer);
    const cudaError_t error = cudaMalloc(&data_, bytes_);
    if (error != cudaSuccess) return error;
    return cudaMemcpy(data_, guarded(buffer), bytes_, cudaMemcpyHostToDevice);
  }
  /// Has the device use host memory, which outlives its faults.
  cudaError_t map(const ModuleBuffer& buffer) {
    if (buffer.bytes == 0) return cudaSuccess;
    const cudaError_t error =
        cudaHostRegister(guarded(buffer), guarded_bytes(buffer), cudaHostRegisterMapped);
    if (error != cudaSuccess) return error;
    host_ = guarded(buffer);
    return cudaHostGetDevicePointer(&data_, host_, 0);
  }
  cudaError_t copy_back(const ModuleBuffer& buffer) const {
    if (bytes_ == 0) return cudaSuccess;
    return cudaMemcpy(guarded(buffer), data_, bytes_, cudaMemcpyDeviceToHost);
  }
  /// Where the buffer itself begins.
  void* data() const { return data_ ? static_cast<char*>(data_) + guard_bytes : nullptr; }

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

/// Launches a kernel, as soon as there is room beside what is before it in the stream.
template <class K>
cudaError_t launch(void (*kernel)(KernelArguments<K>), std::int64_t blocks, int threads, int shared,
                   cudaStream_t stream, const KernelArguments<K>& arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = grids_overlap() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments);
}

/// Both passes, as far as the gate has them, one behind the other in a stream.
template <class K>
cudaError_t launch_passes(const ModuleRun& run, const KernelArguments<K>& arguments,
                          cudaStream_t stream) {
  if constexpr (launches_first<K, gate>) {
    constexpr int shared = sizeof(typename K::SharedMemory);
    cudaError_t error =
        cudaFuncSetAttribute(kernel_entry<K>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (error != cudaSuccess) return error;
    std::int64_t blocks = run.blocks;
    if constexpr (is_persistent<K>) {
      int device = 0, multiprocessors = 0;
      cudaGetDevice(&device);
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      const std::int64_t room = std::int64_t{multiprocessors} * K::blocks_per_multiprocessor;
      if (blocks > room) blocks = room;
    }
    error = launch<K>(kernel_entry<K>, blocks, K::threads, shared, stream, arguments);
    if (error != cudaSuccess) return error;
  }
  if constexpr (launches_second<K, gate>) {
    const cudaError_t error =
        launch<K>(combine_entry<K>, run.combine_blocks, K::combine_threads, 0, stream, arguments);
    if (error != cudaSuccess) return error;
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
  if (!takes_problem<Kernel>(*run)) return ModuleStatus::refused;
  Buffer inputs[std::size(module_inputs)], results[std::size(module_results)];
  ModuleRun on_device = *run;
  for (std::size_t i = 0; i < std::size(inputs); ++i) {
    ModuleBuffer& buffer = on_device.*module_inputs[i];
    const cudaError_t error = inputs[i].fill(buffer);
    if (error != cudaSuccess) return fail(run, error, "copying the inputs to the device");
    buffer.data = inputs[i].data();
  }
  for (std::size_t i = 0; i < std::size(results); ++i) {
    ModuleBuffer& buffer = on_device.*module_results[i];
    const cudaError_t error = run->surviving ? results[i].map(buffer) : results[i].fill(buffer);
    if (error != cudaSuccess) return fail(run, error, "making room for the results");
    buffer.data = results[i].data();
  }

  cudaError_t error = cudaSuccess;
#if LANESCOPE_TRACE == 2
  // Text of all lanes waits on the device until the kernel ends.
  error = cudaDeviceSetLimit(cudaLimitPrintfFifoSize, std::size_t{1} << 30);
  if (error != cudaSuccess) return fail(run, error, "reserving the printf buffer");
#endif
  KernelArguments<Kernel> arguments = arguments_of(on_device);
  if (!prepare<Kernel>(*run, arguments)) return ModuleStatus::kernel_fault;
  const auto launch = [&](cudaStream_t stream) {
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

  for (std::size_t i = 0; i < std::size(results); ++i) {
    error = results[i].copy_back(run->*module_results[i]);
    if (error != cudaSuccess) return fail(run, error, "copying the results back");
  }
  for (std::size_t i = 0; i < std::size(inputs); ++i) {  // for their guards
    error = inputs[i].copy_back(run->*module_inputs[i]);
    if (error != cudaSuccess) return fail(run, error, "copying the inputs back");
  }
  return ModuleStatus::ok;
}

}  // namespace lanescope

#if !LANESCOPE_TRACE
/// The kernel by itself, on tensors that are on the device, in `stream`, for programs that launch
/// it among others (tests/benchmarks/peers.py): 0, or −1 where it wants more than these, or does
/// not take them. Shapes as in kernels/parts/arguments.h, rows of head_dim elements; the scales are
/// read where elements have 8 bits.
extern "C" __attribute__((visibility("default"))) int lanescope_attend(
    void* q, void* k, void* v, float* q_scale, float* k_scale, float* v_scale, void* o, float* lse,
    int batch, int heads, int heads_kv, int len_q, int len_kv, int causal, cudaStream_t stream) {
  using namespace lanescope;
  if constexpr (gate != Gate::fused || combines<Kernel>) {
    return -1;
  } else {
    char message[200];
    ModuleRun run{};
    run.problem = {batch, heads, heads_kv, len_q, len_kv, head_dim, causal != 0};
    run.splits = run.heads_per_tile = 1;
    run.blocks = std::int64_t{batch} * heads * ((len_q + br - 1) / br);
    run.q.data = q;
    run.k.data = k;
    run.v.data = v;
    run.q_scale.data = q_scale;
    run.k_scale.data = k_scale;
    run.v_scale.data = v_scale;
    run.o.data = o;
    run.lse.data = lse;
    run.message = message;
    run.message_bytes = sizeof(message);
    KernelArguments<Kernel> arguments = arguments_of(run);
    if (!takes_problem<Kernel>(run) || !prepare<Kernel>(run, arguments)) return -1;
    return launch_passes<Kernel>(run, arguments, stream) == cudaSuccess ? 0 : -1;
  }
}
#endif

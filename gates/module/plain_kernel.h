#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "gates/module/module.h"
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#elif defined(LANESCOPE_DYNAMIC_SHARED)
#include "debug/simt/launch.h"
#endif

// Makes a module of a kernel that knows nothing of this lab: its outputs alone are judged. Compiled
// with nvcc the kernel runs on the GPU, else on the CPU: as it is, or, where it is written in words
// of CUDA's (kernels/device/cuda_words.h), on the SIMT machine.

namespace lanescope {

/// The problem that a plain kernel is launched on: its sides (batch, heads, heads_kv, len_q,
/// len_kv, d; causal) and its tensors. The pointers are the device's, or the host's for a kernel
/// that runs there. Rows are contiguous and have head_dim elements of the declared type, zeros from
/// d on.
struct PlainRun : Problem {
  const void* q;  ///< [batch, heads, len_q, head_dim]
  const void* k;  ///< [batch, heads_kv, len_kv, head_dim]
  const void* v;  ///< as k
  void* o;        ///< as q; f16 where those are e4m3
  float* lse;     ///< [batch, heads, len_q], the log-sum-exp of the scaled scores, natural
  float scale;    ///< 1 / sqrt(d)
  /// Of e4m3: what the elements of a head are multiplied with; else nullptr.
  const float* q_scale;  ///< [batch, heads]
  const float* k_scale;  ///< [batch, heads_kv]
  const float* v_scale;  ///< as k_scale
};

/// What is to be known of a plain kernel to judge it: the error bounds follow from it.
struct PlainKernel {
  const char* name = "plain";
  ElementType dtype = ElementType::f16;  ///< of q, k, v and o; of e4m3 o is f16
  int head_dim = 64;
  int br = 64, bc = 64;                       ///< the queries and keys that it takes at a time
  Products products = Products::tensor_core;  ///< of f32: fp32_fma, or tensor_core_tf32
  bool writes_lse = true;
  bool lse_base_2 = false;  ///< it is log2 of the sum of 2^s, of scores in base 2
};

/// Launches the kernel and returns nullptr; or says why it does not take such a problem.
using PlainLaunch = const char* (*)(const PlainRun&);

namespace plain {

inline const PlainKernel* kernel = nullptr;
inline PlainLaunch launch = nullptr;

inline PlainRun plain_run_of(const ModuleRun& r) {
  const auto scales = [](const ModuleBuffer& buffer) {
    return buffer.bytes > 0 ? static_cast<const float*>(buffer.data) : nullptr;
  };
  return {r.problem,
          r.q.data,
          r.k.data,
          r.v.data,
          r.o.data,
          static_cast<float*>(r.lse.data),
          static_cast<float>(1 / std::sqrt(static_cast<double>(r.problem.d))),
          scales(r.q_scale),
          scales(r.k_scale),
          scales(r.v_scale)};
}

inline ModuleStatus refuse(ModuleRun* run, const char* why) {
  std::snprintf(run->message, static_cast<std::size_t>(run->message_bytes), "%s", why);
  return ModuleStatus::refused;
}

#if defined(__CUDACC__)
inline constexpr const char* backend = "cuda";

inline ModuleStatus device(char* name, int name_bytes, char* arch, int arch_bytes) {
  int id = 0;
  cudaDeviceProp properties;
  cudaError_t error = cudaGetDevice(&id);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, id);
  const bool known = error == cudaSuccess;
  std::snprintf(name, static_cast<std::size_t>(name_bytes), "%s",
                known ? properties.name : cudaGetErrorString(error));
  if (!known) return ModuleStatus::no_device;
  std::snprintf(arch, static_cast<std::size_t>(arch_bytes), "sm_%d%d", properties.major,
                properties.minor);
  return ModuleStatus::ok;
}

/// A buffer of the host's on the device, with its guards; where it is a result in a run that shall
/// survive a fault, or so large that only its end is filled, the host's memory itself.
struct OnDevice {
  ModuleBuffer host;
  bool mapped;
  void* whole = nullptr;

  /// Where the tensor itself begins.
  void* data() const { return whole ? static_cast<char*>(whole) + guard_bytes : nullptr; }
  cudaError_t fill() {
    if (host.bytes == 0) return cudaSuccess;
    const std::size_t bytes = guarded_bytes(host);
    if (mapped) {
      const cudaError_t error = cudaHostRegister(guarded(host), bytes, cudaHostRegisterMapped);
      return error != cudaSuccess ? error : cudaHostGetDevicePointer(&whole, guarded(host), 0);
    }
    const cudaError_t error = cudaMalloc(&whole, bytes);
    if (error != cudaSuccess) return error;
    return cudaMemcpy(whole, guarded(host), bytes, cudaMemcpyHostToDevice);
  }
  cudaError_t copy_back() const {
    if (mapped || !whole) return cudaSuccess;
    return cudaMemcpy(guarded(host), whole, guarded_bytes(host), cudaMemcpyDeviceToHost);
  }
  void give_back() const {
    if (!whole) return;
    if (mapped) {
      cudaHostUnregister(guarded(host));
    } else {
      cudaFree(whole);
    }
  }
};

inline ModuleStatus run(ModuleRun* r) {
  if (r->timing) return refuse(r, "a plain kernel is judged, not timed");
  const bool is_far = r->first_block > 0, maps = r->surviving != 0 || is_far;
  OnDevice tensors[] = {{r->q, is_far},      {r->k, is_far},     {r->v, is_far},
                        {r->o, maps},        {r->lse, maps},     {r->q_scale, false},
                        {r->k_scale, false}, {r->v_scale, false}};
  const char* what = "copying the inputs to the device";
  cudaError_t error = cudaSuccess;
  const char* refusal = nullptr;
  for (OnDevice& tensor : tensors) {
    if (error == cudaSuccess) error = tensor.fill();
  }
  if (error == cudaSuccess) {
    what = "running the kernel";
    PlainRun run = plain_run_of(*r);
    run.q = tensors[0].data();
    run.k = tensors[1].data();
    run.v = tensors[2].data();
    run.o = tensors[3].data();
    run.lse = static_cast<float*>(tensors[4].data());
    run.q_scale = static_cast<const float*>(tensors[5].data());
    run.k_scale = static_cast<const float*>(tensors[6].data());
    run.v_scale = static_cast<const float*>(tensors[7].data());
    refusal = launch(run);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  for (const OnDevice& tensor : tensors) {
    if (error == cudaSuccess) error = tensor.copy_back();
  }
  for (const OnDevice& tensor : tensors) tensor.give_back();
  if (refusal) return refuse(r, refusal);
  if (error == cudaSuccess) return ModuleStatus::ok;
  std::snprintf(r->message, static_cast<std::size_t>(r->message_bytes), "%s: %s (%s)", what,
                cudaGetErrorString(error), cudaGetErrorName(error));
  return error == cudaErrorMemoryAllocation ? ModuleStatus::no_memory : ModuleStatus::kernel_fault;
}
#else
inline constexpr const char* backend = "sim";

inline ModuleStatus device(char* name, int name_bytes, char* arch, int arch_bytes) {
  std::snprintf(name, static_cast<std::size_t>(name_bytes), "CPU");
  std::snprintf(arch, static_cast<std::size_t>(arch_bytes), "sm_90");
  return ModuleStatus::ok;
}

/// The run under way, for a launch on the SIMT machine, and whether all launches so far ended.
inline ModuleRun* running = nullptr;
inline bool all_ended = true;

inline ModuleStatus run(ModuleRun* r) {
  if (r->timing) return refuse(r, "a plain kernel is judged, not timed");
#if !defined(LANESCOPE_DYNAMIC_SHARED)
  if (r->first_block > 0) return refuse(r, "it has no blocks that run alone");
#endif
  running = r;
  all_ended = true;
  const char* refusal = launch(plain_run_of(*r));
  if (!all_ended) return ModuleStatus::kernel_fault;
  return refusal ? refuse(r, refusal) : ModuleStatus::ok;
}
#endif

}  // namespace plain

#if defined(__CUDACC__)
/// kernel<<<grid, block, shared_bytes>>>(arguments...), in words that are C++ elsewhere too.
template <class... Parameters, class... Arguments>
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel)(Parameters...),
            Arguments... arguments) {
  kernel<<<grid, block, shared_bytes>>>(arguments...);
}
#elif defined(LANESCOPE_DYNAMIC_SHARED)
/// The same on the SIMT machine. A launch that broke off is the last one.
template <class... Parameters, class... Arguments>
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel)(Parameters...),
            Arguments... arguments) {
  ModuleRun& run = *plain::running;
  const unsigned threads = block.x * block.y * block.z;
  const std::int64_t blocks = std::int64_t{grid.x} * grid.y * grid.z;
  if (!plain::all_ended) return;
  if (threads % 32 != 0) {
    std::snprintf(run.message, static_cast<std::size_t>(run.message_bytes),
                  "a block of %u threads: the SIMT machine takes multiples of 32", threads);
    plain::all_ended = false;
    return;
  }
  cuda_words::launched = {grid, block};
  const auto call = [&] { kernel(arguments...); };
  plain::all_ended = simt::launch(
      {.blocks = blocks,
       .threads = static_cast<int>(threads),
       .shared_bytes = shared_bytes,
       .workers = run.workers,
       .schedule = run.schedule,
       .tensor_core = run.rules->tensor_core,
       .first_block = run.first_block > 0 ? blocks - 1 : 0},
      [](const void* kernel_call) { (*static_cast<decltype(&call)>(kernel_call))(); }, &call,
      run.message, static_cast<std::size_t>(run.message_bytes));
}
#endif

/// What `lanescope_module` of a plain kernel returns. `kernel` and what it points to must last.
inline const Module* plain_module(const PlainKernel& kernel, PlainLaunch launch) {
  plain::kernel = &kernel;
  plain::launch = launch;
  static const Site sites[] = {
      {SiteId::o_final, Stage::epilogue, Space::global, operand_type(kernel.dtype), Axes::query_d,
       false, kernel.br, kernel.head_dim, 0, 0},
      {SiteId::lse, Stage::epilogue, Space::global, ElementType::f32, Axes::query, false, kernel.br,
       1, 0, 0}};
  static const Module module = {module_abi,
                                kernel.name,
                                Gate::fused,
                                plain::backend,
                                kernel.dtype,
                                kernel.products,
                                kernel.head_dim,
                                kernel.br,
                                kernel.bc,
                                32,     // threads: none is traced
                                false,  // combines
                                0,
                                "off",
                                false,
                                "",
                                "",
                                sites,
                                kernel.writes_lse ? 2 : 1,
                                [](SiteId, int, int, int, int* row, int* col) { *row = *col = -1; },
                                [](SiteId, int, int) { return -1; },
                                [](std::int64_t, const char**, int*, int*) { return false; },
                                plain::device,
                                plain::run,
                                [](ModulePass*, int) { return 0; },
                                nullptr,
                                false,
                                kernel.lse_base_2};
  return &module;
}

}  // namespace lanescope

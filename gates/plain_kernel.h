#pragma once

#include <cstdint>
#include <cstdio>
#include <new>

#include "gates/module.h"
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

// Makes a module of a kernel that knows nothing of this lab: its outputs alone are judged. Compiled
// with nvcc the kernel runs on the GPU, else on the CPU.

namespace lanescope {

/// The problem that a plain kernel is launched on. The pointers are the device's, or the host's for
/// a kernel that runs there. Rows are contiguous and have head_dim elements of the declared type.
struct PlainRun {
  const void* q;  ///< [batch, heads, len_q, head_dim]
  const void* k;  ///< [batch, heads_kv, len_kv, head_dim]
  const void* v;  ///< as k
  void* o;        ///< as q
  float* lse;     ///< [batch, heads, len_q], the natural log-sum-exp of the scaled scores
  int batch, heads, heads_kv, len_q, len_kv;
  int d;        ///< elements of a row that count; zeroes behind, up to head_dim
  float scale;  ///< 1 / sqrt(d)
  bool causal;  ///< query i sees the keys j <= i + len_kv − len_q
};

/// What is to be known of a plain kernel to judge it: the error bounds follow from it.
struct PlainKernel {
  const char* name = "plain";
  ElementType dtype = ElementType::f16;  ///< of q, k, v and o: f16 or bf16
  int head_dim = 64;
  int br = 64, bc = 64;                       ///< the queries and keys that it takes at a time
  Products products = Products::tensor_core;  ///< or fp32_fma
  bool writes_lse = true;
};

/// Launches the kernel and returns nullptr; or says why it does not take such a problem.
using PlainLaunch = const char* (*)(const PlainRun&);

namespace plain {

inline const PlainKernel* kernel = nullptr;
inline PlainLaunch launch = nullptr;

inline PlainRun problem_of(const ModuleRun& r) {
  PlainRun run{r.q,        r.k,     r.v,      r.o, r.lse, r.batch,      r.heads,
               r.heads_kv, r.len_q, r.len_kv, 0,   0,     r.causal != 0};
  run.scale = r.scale_log2 * 0.69314718056f;
  run.d = static_cast<int>(1 / (run.scale * run.scale) + 0.5f);
  return run;
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

/// A tensor of the host's on the device; where it is a result in a run that shall survive a fault,
/// the host's memory itself.
struct OnDevice {
  void* host;
  std::int64_t bytes;
  bool mapped;
  void* data = nullptr;

  cudaError_t fill() {
    const auto size = static_cast<std::size_t>(bytes);
    if (mapped) {
      const cudaError_t error = cudaHostRegister(host, size, cudaHostRegisterMapped);
      return error != cudaSuccess ? error : cudaHostGetDevicePointer(&data, host, 0);
    }
    const cudaError_t error = cudaMalloc(&data, size);
    return error != cudaSuccess ? error : cudaMemcpy(data, host, size, cudaMemcpyHostToDevice);
  }
  cudaError_t copy_back() const {
    if (mapped) return cudaSuccess;
    return cudaMemcpy(host, data, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost);
  }
  void give_back() const {
    if (mapped) {
      cudaHostUnregister(host);
    } else {
      cudaFree(data);
    }
  }
};

inline ModuleStatus run(ModuleRun* r) {
  if (r->timing) return refuse(r, "a plain kernel is judged, not timed");
  const std::int64_t row = std::int64_t{kernel->head_dim} * size_of(kernel->dtype);
  const std::int64_t queries = std::int64_t{r->batch} * r->heads * r->len_q;
  const std::int64_t keys = std::int64_t{r->batch} * r->heads_kv * r->len_kv;
  const bool maps = r->surviving != 0;
  OnDevice tensors[] = {{const_cast<void*>(r->q), queries * row, false},
                        {const_cast<void*>(r->k), keys * row, false},
                        {const_cast<void*>(r->v), keys * row, false},
                        {r->o, queries * row, maps},
                        {r->lse, queries * 4, maps}};
  const char* what = "copying the inputs to the device";
  cudaError_t error = cudaSuccess;
  const char* refusal = nullptr;
  for (OnDevice& tensor : tensors) {
    if (error == cudaSuccess) error = tensor.fill();
  }
  if (error == cudaSuccess) {
    what = "running the kernel";
    PlainRun run = problem_of(*r);
    run.q = tensors[0].data;
    run.k = tensors[1].data;
    run.v = tensors[2].data;
    run.o = tensors[3].data;
    run.lse = static_cast<float*>(tensors[4].data);
    refusal = launch(run);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  for (int i : {3, 4}) {
    if (error == cudaSuccess) error = tensors[i].copy_back();
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

inline ModuleStatus run(ModuleRun* r) {
  if (r->timing) return refuse(r, "a plain kernel is judged, not timed");
  const char* refusal = launch(problem_of(*r));
  return refusal ? refuse(r, refusal) : ModuleStatus::ok;
}
#endif

}  // namespace plain

/// What `lanescope_module` of a plain kernel returns. `kernel` and what it points to must last.
inline const Module* plain_module(const PlainKernel& kernel, PlainLaunch launch) {
  plain::kernel = &kernel;
  plain::launch = launch;
  static const Site sites[] = {{SiteId::o_final, Stage::epilogue, Space::global, kernel.dtype,
                                Axes::query_d, false, kernel.br, kernel.head_dim, 0, 0},
                               {SiteId::lse, Stage::epilogue, Space::global, ElementType::f32,
                                Axes::query, false, kernel.br, 1, 0, 0}};
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
                                [](ModulePass*, int) { return 0; }};
  return &module;
}

}  // namespace lanescope

// ptx_speed: how fast the machine runs PTX, in instructions of warps per CPU second: fused
// attention (mma) on the mission and on one head of length 2048, and a loop of integers and floats
// that leaves its registers alone; of each the best of five launches. Given the program, also its
// peer: how long `run` takes for the mission from the vocabulary, on one thread. From a checkout
// that is built:
//
//   nvcc -std=c++20 -arch=compute_90 -cudart shared -fmad=false --expt-relaxed-constexpr -I.
//     tests/benchmarks/ptx_speed.cu -o /tmp/ptx_speed
//   LD_LIBRARY_PATH=build/gates /tmp/ptx_speed build/gates/lanescope
//   build/gates/lanescope exec /tmp/ptx_speed       # every launch checked

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <string>
#include <vector>

#include "debug/ptx/runtime_entry.h"
#include "kernels/mma.h"
#include "kernels/trace/trace.h"

namespace {

using namespace lanescope;

void must(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "ptx_speed: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

struct Nothing {
  static constexpr bool holds(const Site&) { return false; }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads)
    attention(const __grid_constant__ kernels::Attention a) {
  extern __shared__ __align__(1024) unsigned char memory[];
  using Trace = BufferTrace<typename Kernel::Sites, Nothing>;
  const Seam<Gate::fused, typename Kernel::Sites, Trace> seam{
      {}, {}, device::block(), {{}, device::block()}};
  Kernel::run(a, *reinterpret_cast<typename Kernel::SharedMemory*>(memory), seam);
}

__global__ void arithmetic(float* out, int rounds) {
  std::uint32_t bits = threadIdx.x;
  float x = 1;
  for (int i = 0; i < rounds; ++i) {
    bits = bits * 1664525u + 1013904223u;
    x = x * 0.5f + static_cast<float>(bits >> 8);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

ptx::Work work() {
  const auto entry =
      reinterpret_cast<ptx::RuntimeEntryFunction*>(dlsym(RTLD_DEFAULT, "lanescope_runtime"));
  if (!entry) {
    std::fprintf(stderr, "ptx_speed: this is not the machine's runtime; see its first lines\n");
    std::exit(2);
  }
  return entry()->work();
}

template <class Launch>
void measure(const char* name, const Launch& launch) {
  double best = 1e9;
  std::int64_t instructions = 0;
  for (int i = 0; i < 5; ++i) {
    const ptx::Work before = work();
    launch();
    must(cudaDeviceSynchronize());
    const ptx::Work after = work();
    instructions = after.instructions - before.instructions;
    best = std::min(best, after.cpu_seconds - before.cpu_seconds);
  }
  std::printf("%-24s %8.3f M instructions %8.3f CPU-s %8.2f M/CPU-s\n", name,
              static_cast<double>(instructions) * 1e-6, best,
              static_cast<double>(instructions) * 1e-6 / best);
}

void measure_attention(const char* name, int heads, int length) {
  using Kernel = kernels::Mma<Gate::fused, device::f16, 64, 64, 64>;
  const std::size_t elements = static_cast<std::size_t>(heads) * length * 64;
  std::vector<std::uint16_t> numbers(elements);
  std::uint32_t state = 1;
  for (std::uint16_t& x : numbers) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<std::uint16_t>((state >> 16 & 0x8fff) | 0x3000);  // of sizes 0.125 to 2
  }
  kernels::Attention a{};
  void* o = nullptr;
  void* lse = nullptr;
  const void** inputs[] = {&a.q, &a.k, &a.v};
  for (const void** x : inputs) {
    void* memory = nullptr;
    must(cudaMalloc(&memory, elements * 2));
    must(cudaMemcpy(memory, numbers.data(), elements * 2, cudaMemcpyHostToDevice));
    *x = memory;
  }
  must(cudaMalloc(&o, elements * 2));
  must(cudaMalloc(&lse, static_cast<std::size_t>(heads) * length * 4));
  a.o = o;
  a.lse = static_cast<float*>(lse);
  a.batch = 1;
  a.heads = a.heads_kv = heads;
  a.len_q = a.len_kv = length;
  a.scale_log2 = static_cast<float>(std::numbers::log2e / 8);
  constexpr int shared = sizeof(typename Kernel::SharedMemory);
  must(
      cudaFuncSetAttribute(attention<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  const int blocks = heads * ((length + 63) / 64);
  measure(name, [&] { attention<Kernel><<<blocks, Kernel::threads, shared>>>(a); });
}

}  // namespace

int main(int count, char** words) {
  measure_attention("mma mission", 8, 512);
  measure_attention("mma one head, 2048", 1, 2048);
  float* out = nullptr;
  must(cudaMalloc(&out, 64 * 128 * sizeof(float)));
  measure("arithmetic", [&] { arithmetic<<<64, 128>>>(out, 1000); });
  if (count < 2) return 0;
  unsetenv("LD_LIBRARY_PATH");
  const std::string run = std::string(words[1]) +
                          " run mma fused --untraced --backend sim --preset mission --threads 1 -o "
                          "/tmp/ptx_speed.safetensors";
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (std::system(run.c_str()) != 0) return 1;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count());
  }
  std::printf("%-24s %33.3f s on one thread, the whole command\n", "mission, vocabulary", best);
  return 0;
}

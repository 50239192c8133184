// trace_cost: what tracing costs on the device at hand. For each tile and length: the kernel alone,
// with one record per lane and tile (site m), with every site of `fused`, and the time that a plain
// streaming write of the same bytes takes, by a grid that fills the device and by one as the
// kernel's (alike), all medians of one run.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <vector>

#include "kernels/mma.h"
#include "kernels/trace/trace.h"

namespace {

using namespace lanescope;

void must(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "trace_cost: %s\n", cudaGetErrorString(error));
  std::exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}

struct Nothing {
  static constexpr bool holds(const Site&) { return false; }
};
struct OneRecord {
  static constexpr bool holds(const Site& site) { return site.id == SiteId::m; }
};
using Everything = TracedBy<Gate::fused>;

template <class Kernel, class Traced>
__global__ void __launch_bounds__(Kernel::threads)
    traced(const __grid_constant__ kernels::Attention a, const __grid_constant__ Slots slots) {
  extern __shared__ __align__(1024) unsigned char memory[];
  using Trace = BufferTrace<typename Kernel::Sites, Traced>;
  const Seam<Gate::fused, typename Kernel::Sites, Trace> seam{
      {}, {}, device::block(), {slots, device::block()}};
  Kernel::run(a, *reinterpret_cast<typename Kernel::SharedMemory*>(memory), seam);
}

__global__ void write(uint4* x, std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    x[i] = make_uint4(1, 2, 3, 4);
  }
}

/// Numbers in [-1, 1).
__global__ void fill(device::f16* x, std::int64_t count, std::uint32_t seed) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    std::uint32_t bits = static_cast<std::uint32_t>(i) * 2654435761u + seed;
    bits = (bits ^ bits >> 15) * 0x85ebca6bu;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
    x[i] = device::narrow<device::f16>(static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f);
  }
}

class Buffer {
 public:
  explicit Buffer(std::int64_t bytes) { must(cudaMalloc(&data_, static_cast<std::size_t>(bytes))); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

/// Median of ten launches, in microseconds.
template <class Launch>
float median(const Launch& launch) {
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin));
  must(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = -3; i < 10; ++i) {
    must(cudaEventRecord(begin));
    launch();
    must(cudaEventRecord(end));
    must(cudaEventSynchronize(end));
    float milliseconds = 0;
    must(cudaEventElapsedTime(&milliseconds, begin, end));
    if (i >= 0) times.push_back(milliseconds * 1000);
  }
  must(cudaEventDestroy(begin));
  must(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + 5, times.end());
  return times[5];
}

template <int D, int Br, int Bc>
void measure(int heads, int length) {
  using Kernel = kernels::Mma<Gate::fused, device::f16, D, Br, Bc>;
  using Sites = typename Kernel::Sites;
  const std::int64_t elements = std::int64_t{heads} * length * D;
  const Buffer q(elements * 2), k(elements * 2), v(elements * 2), o(elements * 2);
  const Buffer lse(std::int64_t{heads} * length * 4);
  std::uint32_t seed = 0;
  for (const Buffer* x : {&q, &k, &v}) fill<<<1024, 256>>>(x->as<device::f16>(), elements, ++seed);
  kernels::Attention a{};
  a.q = q.as<void>();
  a.k = k.as<void>();
  a.v = v.as<void>();
  a.o = o.as<void>();
  a.lse = lse.as<float>();
  a.batch = 1;
  a.heads = a.heads_kv = heads;
  a.len_q = a.len_kv = length;
  a.scale_log2 = static_cast<float>(std::numbers::log2e / std::sqrt(double{D}));

  const int tiles = (length + Bc - 1) / Bc;
  const int blocks = heads * ((length + Br - 1) / Br);
  const std::int64_t bytes = slots_before<Sites, Everything>(Sites::table.size(), blocks, tiles);
  const Buffer buffer(bytes);
  const Slots slots{buffer.as<std::byte>(), {0, blocks, 0, tiles, 0, Kernel::threads / 32, 0, 32}};
  const auto run = [&](auto kernel) {
    constexpr int shared = sizeof(typename Kernel::SharedMemory);
    must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    return median([&] { kernel<<<blocks, Kernel::threads, shared>>>(a, slots); });
  };
  const float alone = run(traced<Kernel, Nothing>);
  const float one = run(traced<Kernel, OneRecord>);
  const float all = run(traced<Kernel, Everything>);
  const auto write_with = [&](int grid, int threads) {
    return median([&] { write<<<grid, threads>>>(buffer.as<uint4>(), bytes / 16); });
  };
  const float written = write_with(132 * 4, 512), alike = write_with(blocks, Kernel::threads);
  std::printf("d%-4d %3dx%-3d %6d %10.1f %10.1f %8.3f %10.1f %8.0f %10.1f %8.2f %10.1f %8.2f\n", D,
              Br, Bc, length, alone, one, one / alone, all, static_cast<double>(bytes) / 1e6,
              written, all / written, alike, all / alike);
}

}  // namespace

int main() {
  std::printf("%-5s %-7s %6s %10s %10s %8s %10s %8s %10s %8s %10s %8s\n", "mma", "tile", "S",
              "alone us", "m us", "m/alone", "all us", "MB", "write us", "all/write", "alike us",
              "all/alike");
  for (const int length : {512, 2048, 4096}) {
    measure<64, 64, 64>(8, length);
    measure<64, 128, 64>(8, length);
    measure<128, 64, 64>(8, length);
  }
}

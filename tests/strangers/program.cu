// A test program as someone else has it: kernels, their launches, what it says of them and its own
// exit code. `program MODE CODE` does one thing and, where all is well, exits with CODE.
#include <cooperative_groups.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                \
  do {                                                                             \
    const cudaError_t error = (call);                                              \
    if (error != cudaSuccess) {                                                    \
      std::printf("%s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error)); \
      return 7;                                                                    \
    }                                                                              \
  } while (0)

__device__ unsigned arrived;
__constant__ float factor;

__global__ void reverse(const float* x, float* y, int n) {
  extern __shared__ float box[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  box[threadIdx.x] = i < n ? x[i] : 0;  // reads x
  __syncthreads();
  if (i < n) y[i] = factor * box[blockDim.x - 1 - threadIdx.x];  // writes y
}

// The last block to arrive adds up what the others left: right, since an atomic orders them.
__global__ void sum(const float* x, float* partial, float* total) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    last = atomicAdd(&arrived, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  *total = 0;
  for (int i = 0; i < gridDim.x; ++i) *total += partial[i];
}

// The same without a fence: what a block left may come behind its atomic.
__global__ void unfenced_sum(const float* x, float* partial, float* total) {
  partial[blockIdx.x] = *x;  // unfenced
  const bool last = atomicAdd(&arrived, 1) % gridDim.x == gridDim.x - 1;
  for (int i = 0; last && i < gridDim.x; ++i) {
    *total += partial[i];  // adds what may not have come
  }
}

// The same with what others add up left too late: after the atomic.
__global__ void late_sum(const float* x, float* partial, float* total) {
  const bool last = atomicAdd(&arrived, 1) % gridDim.x == gridDim.x - 1;
  if (!last) partial[blockIdx.x] = *x;  // too late
  for (int i = 0; last && i < gridDim.x - 1; ++i) {
    *total += partial[i];  // too early
  }
}

__device__ __forceinline__ void copy(float* to, const float* from) {
  const unsigned at = __cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from));
}

__device__ __forceinline__ void put(float* to, float x) { *to = x; }  // stores it
__global__ void putting(float* y) {
  put(y + threadIdx.x, 1);
  put(y + (threadIdx.x ^ 1), 2);  // puts its neighbour's
}
__global__ void halves(unsigned short* y) { y[threadIdx.x] = threadIdx.x; }
__global__ void race_of_blocks(float* y) { y[threadIdx.x] = blockIdx.x; }  // races across
__global__ void race_of_lanes(float* y) {
  y[threadIdx.x] = 1;
  y[threadIdx.x ^ 1] = 2;  // races too
}
__global__ void no_number(float* y) { y[threadIdx.x] = logf(y[threadIdx.x] - 100); }  // no log
__global__ void far(float* y) { y[1 << 17] = 1; }                                     // strays
__global__ void odd(char* y) { *(float*)(y + 2) = 1; }                                // misaligned
__global__ void wrapped(const float* y) {
  __shared__ float box[32];
  copy(box + threadIdx.x, y + 1000 + threadIdx.x);  // calls copy
}
__global__ void endless(volatile float* y) {
  while (*y != 77) {
  }  // waits
}
// The tail of a tile is read, and thrown away.
__global__ void tail(const float* x, float* y) {
  __shared__ float box[64];
  if (threadIdx.x < 40) box[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  const float twice = box[threadIdx.x] > 0 ? 2 * box[threadIdx.x] : 0;
  if (threadIdx.x < 40) y[threadIdx.x] = twice;
}
__global__ void masked(const float* x, float* y, int n) {
  __shared__ float box[32];
  box[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : -INFINITY;
  __syncthreads();
  const float own = box[threadIdx.x ^ 1];  // takes its own
  float m = own;
  for (int i = 16; i > 0; i /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, i));  // finds the maximum
  y[threadIdx.x] = __expf(own - m);                                          // subtracts it
}
__global__ void narrow(const float* x, unsigned short* y) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y[threadIdx.x]) : "f"(1e5f * x[threadIdx.x]));  // overflows
}
// Of no fault, and slower than need be.
__global__ void slow(const float* x, float* y) {
  __shared__ float box[32 * 32];
  for (int i = 0; i < 32; ++i) box[threadIdx.x + 32 * i] = x[threadIdx.x];
  __syncthreads();
  float all = 0;
  for (int i = 0; i < 32; ++i) all += box[32 * threadIdx.x + i];  // banks
  y[4 * threadIdx.x] = all;                                       // sectors
  asm volatile("cp.async.wait_all;");                             // waits for nothing
}
// The blocks of a cluster: what the other one has written is read without their barrier.
__global__ void __cluster_dims__(2) neighbours(float* y, bool meets) {
  __shared__ float box[32];
  box[threadIdx.x] = threadIdx.x;  // writes its box
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const float* other;
  asm("mapa.u64 %0, %1, %2;" : "=l"(other) : "l"(box + threadIdx.x), "r"(rank ^ 1));
  if (meets) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  const float its = *other;  // reads the other's
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  y[32 * blockIdx.x + threadIdx.x] = its;
}
__global__ void unknown(unsigned* y) {
  asm("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(y), "r"(1));
}
__device__ __noinline__ unsigned fibonacci(unsigned n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__global__ void recursive(unsigned* y) { y[threadIdx.x] = fibonacci(threadIdx.x); }
__device__ __noinline__ unsigned twice(unsigned n) { return 2 * n; }
__device__ unsigned (*functions[])(unsigned) = {twice};
__global__ void by_table(unsigned* y) { *y = functions[*y](7); }
__global__ void approximate(float* y) {
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y[0]) : "f"(y[2]));
  asm("tanh.approx.f32 %0, %1;" : "=f"(y[1]) : "f"(y[2]));
}
// Blocks that wait for each other.
__global__ void meeting(float* y, bool meets) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  y[blockIdx.x] = blockIdx.x;  // writes its own
  if (meets) grid.sync();
  y[32 + blockIdx.x] = y[(blockIdx.x + 1) % gridDim.x];  // reads the next one's
}
__global__ void add(float* y, float what) { y[threadIdx.x] += what; }

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const int n = 1000;
  const float three = 3;
  std::vector<float> host(n, 2.0f);
  float *x = nullptr, *y = nullptr;
  CHECK(cudaMalloc(&x, n * 4));
  CHECK(cudaMalloc(&y, n * 4));
  if (mode != "unwritten") CHECK(cudaMemcpy(x, host.data(), n * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyToSymbol(factor, &three, 4));
  if (mode == "freed") CHECK(cudaFree(x));
  if (mode == "freed twice") {
    CHECK(cudaFree(x));
    CHECK(cudaFree(x));
  }
  if (mode == "long copy") CHECK(cudaMemcpy(host.data(), x, n * 4 + 4, cudaMemcpyDeviceToHost));
  if (mode == "wrong kind") CHECK(cudaMemcpy(host.data(), x, 4, cudaMemcpyHostToDevice));
  if (mode == "hangs up") std::abort();
  cudaStream_t stream;
  cudaEvent_t begin, end;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin, stream));
  const int shared = mode == "much shared" || mode == "much shared allowed" ? 100 << 10 : 512;
  if (mode == "much shared allowed") {
    CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  }
  const int threads = mode == "many threads" ? 2048 : 128;
  reverse<<<8, threads, shared, stream>>>(x, y, mode == "too long" ? n + 24 : n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  sum<<<8, 32, 0, stream>>>(x, y, y + 8);
  halves<<<1, 64, 0, stream>>>((unsigned short*)y + 20);
  if (mode == "race of blocks") race_of_blocks<<<2, 32>>>(y);
  if (mode == "race of lanes") race_of_lanes<<<1, 32>>>(y);
  if (mode == "race thrice") {
    for (int i = 0; i < 3; ++i) race_of_lanes<<<1, 32>>>(y);
  }
  if (mode == "inlined") putting<<<1, 32>>>(y + 40);
  if (mode == "no number") no_number<<<1, 32>>>(y + 40);
  if (mode == "far") far<<<1, 1>>>(y);
  if (mode == "odd") odd<<<1, 1>>>((char*)y);
  if (mode == "unfenced sum") unfenced_sum<<<8, 1>>>(x, y + 40, y + 60);
  if (mode == "late sum") late_sum<<<8, 1>>>(x, y + 40, y + 60);
  if (mode == "wrapped") wrapped<<<1, 32>>>(y);
  if (mode == "tail") tail<<<1, 64>>>(x, y + 40);
  if (mode == "endless") endless<<<1, 32>>>(y + 40);
  if (mode == "masked") masked<<<1, 32>>>(x, y + 40, 0);
  if (mode == "narrow") narrow<<<1, 32>>>(x, (unsigned short*)y + 100);
  if (mode == "slow") slow<<<1, 32>>>(x, y + 40);
  if (mode == "neighbours") neighbours<<<2, 32>>>(y + 40, false);
  if (mode == "neighbours that meet") neighbours<<<2, 32>>>(y + 40, true);
  if (mode == "attributes") {
    struct {
      cudaFuncAttributes own;
      int behind;
    } attributes;
    attributes.behind = 77;
    CHECK(cudaFuncGetAttributes(&attributes.own, neighbours));
    std::printf("%d %d %d %d\n", attributes.own.ptxVersion, attributes.own.binaryVersion,
                attributes.own.requiredClusterWidth, attributes.behind);
  }
  if (mode == "unknown") {
    unknown<<<1, 1>>>((unsigned*)y);
    CHECK(cudaGetLastError());
  }
  if (mode == "recursive") {
    recursive<<<1, 8>>>((unsigned*)y);
    unsigned its[8];
    CHECK(cudaMemcpy(its, y, sizeof its, cudaMemcpyDeviceToHost));
    for (const unsigned x : its) std::printf("%u ", x);
    std::printf("\n");
  }
  if (mode == "by table") {
    by_table<<<1, 1>>>((unsigned*)y);
    CHECK(cudaGetLastError());
  }
  if (mode == "unknown beside others") {
    cudaError_t of_launch[2];
    for (cudaError_t& error : of_launch) {
      unknown<<<1, 1>>>((unsigned*)y);
      error = cudaGetLastError();
    }
    std::printf("%s %s %s\n", cudaGetErrorName(of_launch[0]), cudaGetErrorName(of_launch[1]),
                cudaGetErrorName(cudaDeviceSynchronize()));
  }
  if (mode == "texture") {
    cudaArray_t array;
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &format, 64));
  }
  if (mode == "approximate") {
    approximate<<<1, 1>>>(y + 2);
    CHECK(cudaMemcpy(host.data(), y, 16, cudaMemcpyDeviceToHost));
    std::printf("%.9g %.9g\n", host[2], host[3]);
  }
  if (mode == "meeting" || mode == "missing" || mode == "too many") {
    bool meets = mode != "missing";
    float* first = y + 40;
    void* arguments[] = {&first, &meets};
    const int blocks = mode == "too many" ? 132 * 32 + 1 : 20;
    CHECK(cudaLaunchCooperativeKernel(meeting, blocks, 1, arguments, 0, stream));
    CHECK(cudaMemcpy(host.data(), y + 72, 80, cudaMemcpyDeviceToHost));
    std::printf("%g %g\n", host[0], host[19]);
  }
  if (mode == "graph" || mode == "graph waited for") {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaStream_t other;
    cudaEvent_t fork, joined;
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&joined));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(y + 40, 0, 128, stream));
    for (float what = 1; what < 3; ++what) add<<<1, 32, 0, stream>>>(y + 40, what);
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(other, fork, 0));
    add<<<1, 32, 0, other>>>(y + 72, 10);
    CHECK(cudaEventRecord(joined, other));
    CHECK(cudaStreamWaitEvent(stream, joined, 0));
    if (mode == "graph waited for") CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaMemset(y + 40, 0, 256));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaMemcpy(host.data(), y + 40, 256, cudaMemcpyDeviceToHost));
    std::printf("%g %g\n", host[0], host[32]);
  }
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaStreamSynchronize(stream));
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  CHECK(cudaMemcpy(host.data(), y, n * 4, cudaMemcpyDeviceToHost));
  unsigned count = 0;
  CHECK(cudaMemcpyFromSymbol(&count, arrived, 4));
  std::printf("%g %g %u %d\n", host[8], host[999], count, milliseconds >= 0);
  return argc > 2 ? std::atoi(argv[2]) : 0;
}

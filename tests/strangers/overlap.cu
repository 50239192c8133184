// A program whose second kernel is launched so that it may begin before the first has ended.
// `overlap MODE`: what goes wrong between them, if anything; exits with 0.
#include <cuda_runtime.h>

#include <cstdio>
#include <string>

#define CHECK(call)                                                                \
  do {                                                                             \
    const cudaError_t error = (call);                                              \
    if (error != cudaSuccess) {                                                    \
      std::printf("%s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error)); \
      return 7;                                                                    \
    }                                                                              \
  } while (0)

enum class Wait { all, none, late, first_lane, first_lane_alone };

__global__ void first(const float* x, float* y, bool lets_next_start) {
  if (lets_next_start) cudaTriggerProgrammaticLaunchCompletion();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i];  // the first reads x and writes y
}

__global__ void second(const float* y, float* z, Wait wait) {
  __shared__ float own[64];
  own[threadIdx.x] = 1;
  if (wait == Wait::all) cudaGridDependencySynchronize();
  if (wait == Wait::first_lane || wait == Wait::first_lane_alone) {
    if (threadIdx.x == 0) cudaGridDependencySynchronize();
  }
  if (wait != Wait::first_lane_alone) __syncthreads();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const float from = y[i];  // the second reads y
  if (wait == Wait::late) cudaGridDependencySynchronize();
  z[i] = from + own[threadIdx.x];  // the second writes z
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  constexpr int n = 256;
  float *x, *y, *z, host[n];
  for (float& value : host) value = 3;
  for (float** memory : {&x, &y, &z}) CHECK(cudaMalloc(memory, sizeof host));
  CHECK(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(z, host, sizeof host, cudaMemcpyHostToDevice));
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamCreate(&stream));
  if (mode == "graph") CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));

  first<<<4, 64, 0, stream>>>(x, y, mode != "keeps to itself");
  if (mode == "waited for") CHECK(cudaStreamSynchronize(stream));
  if (mode == "copied") CHECK(cudaMemcpyAsync(z, x, 4, cudaMemcpyDeviceToDevice, stream));
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = mode != "in order";
  cudaLaunchConfig_t config{};
  config.gridDim = 4;
  config.blockDim = 64;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  Wait wait = mode == "right" ? Wait::all : Wait::none;
  if (mode == "late") wait = Wait::late;
  if (mode == "one lane") wait = Wait::first_lane;
  if (mode == "one lane alone") wait = Wait::first_lane_alone;
  const bool overwrites = mode == "overwrites x";
  CHECK(cudaLaunchKernelEx(&config, second, overwrites ? z : y, overwrites ? x : z, wait));

  if (mode == "graph") {
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(host, z, sizeof host, cudaMemcpyDeviceToHost));
  std::printf("%g\n", host[n - 1]);
  return 0;
}

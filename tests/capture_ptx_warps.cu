// capture_ptx_warps OUTPUT.safetensors: what the GPU at hand makes of each trial of
// tests/support/ptx_warps.h, by its name: the words that the kernel leaves. Those that its driver
// refuses are said and left out. tests/data/ptx_warps_h200.safetensors is of an H200.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/capture_file.h"
#include "tests/support/ptx_warps.h"

using namespace lanescope::ptx_warps;

namespace {

constexpr std::size_t most = 1 << 20;  ///< bytes of each buffer

/// Of the words at `base`, as ptx_warps.h says.
CUtensorMap map_of(void* base) {
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found{};
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault,
                                   &found);
  CUtensorMap map{};
  const cuuint64_t sizes[] = {32, 28}, stride = 128;
  const cuuint32_t box[] = {16, 16}, step[] = {1, 1};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, base, sizes, &stride, box, step,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) std::fprintf(stderr, "capture_ptx_warps: no map: %d\n", result);
  return map;
}

struct Memory {
  std::uint32_t *in = nullptr, *out = nullptr;
  void *map = nullptr, *own = nullptr;
};

/// What it leaves; none where the driver does not take it.
std::vector<std::uint32_t> run(const Trial& trial, Memory& memory) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  cudaLibraryLoadData(&library, trial.text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  cudaLibraryGetKernel(&kernel, library, "kernel");
  cudaFuncAttributes attributes;  // asked for it, the driver compiles it
  cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
  if (cudaGetLastError() != cudaSuccess) return {};
  const std::vector<std::uint32_t> words = words_of(trial);
  std::vector<std::uint32_t> out(static_cast<std::size_t>(results_of(trial)));
  cudaMemcpy(memory.in, words.data(), words.size() * 4, cudaMemcpyHostToDevice);
  cudaMemset(memory.out, 0, out.size() * 4);
  cudaMemset(memory.own, 0, scratch_bytes);
  void* arguments[] = {&memory.in, &memory.out, &memory.map, &memory.own};
  cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(trial.blocks)),
                   dim3(static_cast<unsigned>(trial.threads)), arguments, 0, nullptr);
  cudaMemcpy(out.data(), memory.out, out.size() * 4, cudaMemcpyDeviceToHost);
  cudaLibraryUnload(library);
  return out;
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: capture_ptx_warps OUTPUT.safetensors\n");
    return 2;
  }
  Memory memory;
  cudaMalloc(&memory.in, most);
  cudaMalloc(&memory.out, most);
  cudaMalloc(&memory.map, 128);
  cudaMalloc(&memory.own, scratch_bytes);
  const CUtensorMap map = map_of(memory.in);
  cudaMemcpy(memory.map, &map, sizeof map, cudaMemcpyHostToDevice);
  lanescope::CaptureFile file;
  int refused = 0;
  for (const Trial& trial : trials()) {
    const std::vector<std::uint32_t> results = run(trial, memory);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
      // The GPU takes nothing more of this program: what comes next is not known.
      std::printf("stopped at %s: %s\n", trial.name.c_str(), cudaGetErrorString(error));
      break;
    }
    if (results.empty()) {
      ++refused;
      std::printf("refused: %s\n", trial.name.c_str());
      continue;
    }
    file.add(trial.name, "U32", results.size(),
             {reinterpret_cast<const char*>(results.data()), results.size() * 4});
  }
  std::printf("%d refused\n", refused);
  return file.write(words[1]) ? 0 : 1;
}

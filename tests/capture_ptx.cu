// capture_ptx OUTPUT.safetensors: what the GPU at hand makes of each spelling of
// tests/support/ptx_conformance.h, by its name: [try], as wide as the result's register.
// Those that its driver refuses are said and left out. tests/data/ptx_h200.safetensors is of an
// H200.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/capture_file.h"
#include "tests/support/ptx_conformance.h"

using namespace lanescope::ptx_conformance;

namespace {

/// The results of a spelling's tries; none where the driver does not take it.
std::vector<std::uint64_t> run(const Spelling& spelling) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  const std::string text = module_head + kernel_of(spelling, "kernel");
  cudaLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  cudaLibraryGetKernel(&kernel, library, "kernel");
  cudaFuncAttributes attributes;  // asked for it, the driver compiles it
  cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
  if (cudaGetLastError() != cudaSuccess) return {};
  std::vector<std::uint64_t> in, out(tries);
  for (const auto& operand : inputs_of(spelling))
    in.insert(in.end(), operand.begin(), operand.end());
  std::uint64_t *from = nullptr, *to = nullptr;
  cudaMalloc(&from, in.size() * 8 + 8);
  cudaMalloc(&to, tries * 8);
  cudaMemcpy(from, in.data(), in.size() * 8, cudaMemcpyHostToDevice);
  void* arguments[] = {&from, &to};
  cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(tries), arguments, 0,
                   nullptr);
  cudaMemcpy(out.data(), to, tries * 8, cudaMemcpyDeviceToHost);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    std::fprintf(stderr, "capture_ptx: %s: %s\n", spelling.name().c_str(),
                 cudaGetErrorString(error));
    out.clear();
  }
  cudaFree(from);
  cudaFree(to);
  cudaLibraryUnload(library);
  return out;
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: capture_ptx OUTPUT.safetensors\n");
    return 2;
  }
  lanescope::CaptureFile file;
  int refused = 0;
  for (const Spelling& spelling : spellings()) {
    const std::vector<std::uint64_t> results = run(spelling);
    if (results.empty()) {
      ++refused;
      std::printf("refused: %s\n", spelling.name().c_str());
      continue;
    }
    const int bytes = result_bytes(spelling);
    std::string numbers;
    for (const std::uint64_t result : results) {
      for (int i = 0; i < bytes; ++i) numbers += static_cast<char>(result >> (8 * i) & 0xff);
    }
    file.add(spelling.name(), "U" + std::to_string(8 * bytes), tries, numbers);
  }
  std::printf("%d refused\n", refused);
  return file.write(words[1]) ? 0 : 1;
}

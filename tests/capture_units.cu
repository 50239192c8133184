// capture_units OUTPUT.safetensors: what the GPU at hand makes of each float of the ranges of
// tests/support/units.h, U64 [block] of digests; and of all halves, U16 [65536].
// tests/data/units_h200.safetensors is of an H200.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/capture_file.h"
#include "tests/support/units.h"

using namespace lanescope::units;

namespace {

#define UNIT(name, opcode)                                         \
  __global__ void name(std::uint32_t first, std::uint32_t* out) {  \
    const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; \
    asm(opcode ".f32 %0, %1;" : "=r"(out[i]) : "r"(first + i));    \
  }
UNIT(ex2, "ex2.approx.ftz")
UNIT(lg2, "lg2.approx.ftz")
UNIT(rcp, "rcp.approx.ftz")
UNIT(rsqrt, "rsqrt.approx.ftz")
UNIT(sqrt_, "sqrt.approx.ftz")
UNIT(sin_, "sin.approx.ftz")
UNIT(cos_, "cos.approx.ftz")
UNIT(tanh_, "tanh.approx")

#define HALF(name, opcode)                                                      \
  __global__ void name(std::uint16_t* out) {                                    \
    const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;              \
    asm(opcode " %0, %1;" : "=h"(out[i]) : "h"(static_cast<std::uint16_t>(i))); \
  }
HALF(ex2_f16, "ex2.approx.f16")
HALF(ex2_bf16, "ex2.approx.ftz.bf16")
HALF(tanh_f16, "tanh.approx.f16")
HALF(tanh_bf16, "tanh.approx.bf16")

struct Unit {
  std::string name;
  void (*kernel)(std::uint32_t, std::uint32_t*);
};
const Unit functions[] = {{"ex2.approx.ftz", ex2},    {"lg2.approx.ftz", lg2},
                          {"rcp.approx.ftz", rcp},    {"rsqrt.approx.ftz", rsqrt},
                          {"sqrt.approx.ftz", sqrt_}, {"sin.approx.ftz", sin_},
                          {"cos.approx.ftz", cos_},   {"tanh.approx", tanh_}};
struct HalfUnit {
  const char* name;
  void (*kernel)(std::uint16_t*);
};
const HalfUnit halves[] = {{"ex2.approx.f16", ex2_f16},
                           {"ex2.approx.ftz.bf16", ex2_bf16},
                           {"tanh.approx.f16", tanh_f16},
                           {"tanh.approx.bf16", tanh_bf16}};

lanescope::CaptureFile file;
template <class T>
void add(const std::string& name, const std::vector<T>& words) {
  file.add(name, "U" + std::to_string(8 * sizeof(T)), words.size(),
           {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(T)});
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: capture_units OUTPUT.safetensors\n");
    return 2;
  }
  std::uint32_t* out = nullptr;
  std::vector<std::uint32_t> floats(block_floats);
  cudaMalloc(&out, block_floats * 4);
  for (const Range& range : ranges) {
    std::vector<std::uint64_t> digests;
    for (std::uint32_t block = 0; block < range.blocks; ++block) {
      for (const Unit& unit : functions) {
        if (unit.name == range.function)
          unit.kernel<<<block_floats / 256, 256>>>(range.first + block * block_floats, out);
      }
      cudaMemcpy(floats.data(), out, block_floats * 4, cudaMemcpyDeviceToHost);
      Digest digest;
      for (const std::uint32_t x : floats) digest.add(x);
      digests.push_back(digest.value());
    }
    add(name_of(range), digests);
  }
  std::vector<std::uint16_t> numbers(1 << 16);
  for (const HalfUnit& unit : halves) {
    unit.kernel<<<256, 256>>>(reinterpret_cast<std::uint16_t*>(out));
    cudaMemcpy(numbers.data(), out, numbers.size() * 2, cudaMemcpyDeviceToHost);
    add(unit.name, numbers);
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    std::fprintf(stderr, "capture_units: %s\n", cudaGetErrorString(error));
    return 1;
  }
  return file.write(words[1]) ? 0 : 1;
}

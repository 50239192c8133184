// nvrtc_program WORDS...: a program that compiles its kernel while it runs, with NVRTC, and
// launches it through CUDA's driver. "cubin": as machine code; "too many": with more threads than
// numbers.

#include <cuda.h>
#include <nvrtc.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

const char* const source = R"(extern "C" __global__ void scale(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3 * x[i];
})";

std::string compiled(bool as_cubin) {
  nvrtcProgram program = nullptr;
  nvrtcCreateProgram(&program, source, "scale.cu", 0, nullptr, nullptr);
  const char* options[] = {as_cubin ? "--gpu-architecture=sm_90" : "--gpu-architecture=compute_90",
                           "-lineinfo"};
  if (nvrtcCompileProgram(program, 2, options) != NVRTC_SUCCESS) return {};
  std::size_t bytes = 0;
  as_cubin ? nvrtcGetCUBINSize(program, &bytes) : nvrtcGetPTXSize(program, &bytes);
  std::string image(bytes, '\0');
  as_cubin ? nvrtcGetCUBIN(program, image.data()) : nvrtcGetPTX(program, image.data());
  nvrtcDestroyProgram(&program);
  return image;
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  constexpr int numbers = 1000;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction scale = nullptr;
  cuInit(0);
  cuDeviceGet(&device, 0);
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxSetCurrent(context);
  const std::string image = compiled(mode == "cubin");
  if (const CUresult result = cuModuleLoadData(&module, image.data()); result != CUDA_SUCCESS) {
    const char* text = nullptr;
    cuGetErrorString(result, &text);
    std::printf("%s\n", text);
    return 4;
  }
  cuModuleGetFunction(&scale, module, "scale");
  std::vector<float> x(numbers, 2.0f);
  CUdeviceptr from = 0, to = 0;
  cuMemAlloc(&from, numbers * sizeof(float));
  cuMemAlloc(&to, numbers * sizeof(float));
  cuMemcpyHtoD(from, x.data(), numbers * sizeof(float));
  int n = mode == "too many" ? 1024 : numbers;
  void* arguments[] = {&from, &to, &n};
  cuLaunchKernel(scale, 8, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr);
  cuMemcpyDtoH(x.data(), to, numbers * sizeof(float));
  std::printf("%g %g\n", static_cast<double>(x.front()), static_cast<double>(x.back()));
  return 0;
}

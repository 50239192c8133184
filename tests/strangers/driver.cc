// A test program that takes its kernel from a file while it runs, by CUDA's driver alone: driver
// FILE [MODE]. FILE holds scale(float* x, float by, int n), and `offset`, which it adds.

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::printf("%s: %s\n", call, name ? name : "?");
  std::exit(7);
}
#define CHECK(call) check(call, #call)

CUmodule load(const char* path) {
  CUmodule module;
  char log[512] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  std::vector<char> image(1 << 20);
  std::FILE* file = std::fopen(path, "rb");
  if (!file || std::fread(image.data(), 1, image.size() - 1, file) == 0) std::exit(8);
  std::fclose(file);
  const CUresult result = cuModuleLoadDataEx(&module, image.data(), 2, options, values);
  if (result != CUDA_SUCCESS) std::printf("log: %s\n", log);
  CHECK(result);
  return module;
}

}  // namespace

int main(int, char** words) {
  const std::string mode = words[2] ? words[2] : "";
  CUdevice id;
  CUcontext context;
  CUstream stream;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&id, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, id));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUmodule module = load(words[1]);

  CUfunction scale;
  CHECK(cuModuleGetFunction(&scale, module, mode == "no name" ? "scales" : "scale"));
  int n = 100;
  float by = 2, offset = 1;
  CUdeviceptr x, at;
  std::size_t bytes;
  CHECK(cuModuleGetGlobal(&at, &bytes, module, "offset"));
  CHECK(cuMemcpyHtoD(at, &offset, bytes));
  CHECK(cuMemAlloc(&x, sizeof(float) * n));
  const float one = 1;
  unsigned ones;
  std::memcpy(&ones, &one, sizeof ones);
  if (mode != "unwritten") CHECK(cuMemsetD32Async(x, ones, n, stream));

  if (mode == "too long") ++n;
  const int shared = mode == "much shared" || mode == "much shared allowed" ? 100 << 10 : 0;
  if (mode == "much shared allowed") {
    CHECK(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared));
  }
  void* arguments[] = {&x, &by, &n};
  if (mode == "buffer" || mode == "short buffer") {
    struct {
      CUdeviceptr x;
      float by;
      int n;
    } buffer{x, by, n};
    std::size_t size = mode == "buffer" ? sizeof buffer : 12;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, stream, nullptr, extra));
  } else if (mode == "cluster") {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = 2;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    const CUlaunchConfig config{2, 1, 1, 64, 1, 1, 0, stream, &attribute, 1};
    CHECK(cuLaunchKernelEx(&config, scale, arguments, nullptr));
  } else {
    CHECK(cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, shared, stream, arguments, nullptr));
  }
  CHECK(cuStreamSynchronize(stream));

  std::vector<float> host(n);
  CHECK(cuMemcpyDtoH(host.data(), x, sizeof(float) * 100));
  std::printf("%g %g\n", host[0], host[99]);
  CHECK(cuMemFree(x));
  CHECK(cuModuleUnload(module));
  if (mode == "unloaded")
    CHECK(cuLaunchKernel(scale, 1, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr));
}

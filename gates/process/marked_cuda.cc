// Marked kernels on a GPU: a library of its own, loaded for all before the module, so that the
// module's calls of CUDA's runtime come here first. A launch becomes one of the same kernel in the
// rewritten PTX, which the driver compiles; all else passes on.

#include "gates/process/marked_cuda.h"

#include <dlfcn.h>

#include <bit>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "debug/ptx/runtime_entry.h"

namespace {

using lanescope::MarkedCuda;
using lanescope::MarkedResources;

struct Dim3 {
  unsigned x, y, z;
};
using Stream = void*;
using DriverModule = void*;
using DriverFunction = void*;

/// CUDA's runtime, which the module is linked with, and the driver. Types of functions are those of
/// their documentation (CUDA Runtime API, CUDA Driver API).
template <class Function>
Function* of_library(std::initializer_list<const char*> names, const char* function) {
  for (const char* name : names) {
    void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (!library) continue;
    return reinterpret_cast<Function*>(dlsym(library, function));
  }
  return nullptr;
}
template <class Function>
Function* of_runtime(const char* function) {
  return of_library<Function>({"libcudart.so.13", "libcudart.so.12"}, function);
}
template <class Function>
Function* of_driver(const char* function) {
  return of_library<Function>({"libcuda.so.1"}, function);
}

/// A kernel of the module, and the function that stands for it.
struct Kernel {
  std::string name;
  const void* function;
};
std::map<const void*, Kernel> kernels;  ///< by that function, and by the runtime's handle
const MarkedCuda* marked = nullptr;
MarkedResources* resources = nullptr;
DriverModule module = nullptr;
std::string failure;

constexpr int not_ready = 999;  // cudaErrorUnknown: `failure` says what

int fail(const std::string& what) {
  if (failure.empty()) failure = what;
  return not_ready;
}

std::string error_name(int error) {
  const char* name = "an unknown error";
  if (const auto get = of_driver<int(int, const char**)>("cuGetErrorName")) get(error, &name);
  return name;
}

/// Compiles the rewritten PTX, and tells it where the buffers are.
std::string load_module() {
  std::ifstream file(marked->ptx, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) return "the rewritten PTX cannot be read";
  const auto load =
      of_driver<int(DriverModule*, const void*, unsigned, int*, void**)>("cuModuleLoadDataEx");
  const auto find =
      of_driver<int(void**, std::size_t*, DriverModule, const char*)>("cuModuleGetGlobal_v2");
  const auto copy = of_driver<int(void*, const void*, std::size_t)>("cuMemcpyHtoD_v2");
  const auto share = of_runtime<int(void*, std::size_t, unsigned)>("cudaHostRegister");
  const auto place = of_runtime<int(void**, void*, unsigned)>("cudaHostGetDevicePointer");
  if (!load || !find || !copy || !share || !place) return "the CUDA driver lacks functions";
  static char log[2048];
  constexpr int error_log_buffer = 5, error_log_bytes = 6;  // CUjit_option
  int options[] = {error_log_buffer, error_log_bytes};
  void* values[] = {log, std::bit_cast<void*>(std::uintptr_t{sizeof log})};
  if (const int error = load(&module, text.c_str(), 2, options, values); error != 0) {
    return "the driver does not compile the rewritten PTX (" + error_name(error) + "): " + log;
  }
  void* addresses[4] = {};
  for (int i = 0; i < 4; ++i) {
    const MarkedCuda::Buffer& buffer = marked->buffers[i];
    if (buffer.bytes == 0) continue;
    constexpr unsigned is_mapped = 2;  // cudaHostRegisterMapped
    if (share(buffer.data, static_cast<std::size_t>(buffer.bytes), is_mapped) != 0 ||
        place(&addresses[i], buffer.data, 0) != 0) {
      return "the device cannot use the buffers of the markers";
    }
  }
  void* variable = nullptr;
  std::size_t bytes = 0;
  if (find(&variable, &bytes, module, lanescope::ptx::marker_buffers_name) != 0 ||
      copy(variable, addresses, sizeof addresses) != 0) {
    return "the rewritten module lacks its variable";
  }
  return {};
}

int attribute(DriverFunction function, int which) {
  int value = -1;
  if (const auto get = of_driver<int(int*, int, DriverFunction)>("cuFuncGetAttribute")) {
    get(&value, which, function);
  }
  return value;
}

/// What the module's own kernel takes, by the runtime's handle of it.
void note_resources(const Kernel& kernel, DriverFunction rewritten) {
  constexpr int local_bytes = 3, registers = 4;  // CUfunction_attribute
  const auto own = of_runtime<int(DriverFunction*, const void*)>("cudaGetFuncBySymbol");
  DriverFunction function = nullptr;
  *resources = {-1, -1, attribute(rewritten, registers), attribute(rewritten, local_bytes)};
  if (!own || own(&function, kernel.function) != 0) return;
  resources->registers = attribute(function, registers);
  resources->local = attribute(function, local_bytes);
}

/// Launches the kernel of the rewritten module. Returns CUDA's error; −1: the launch is another's.
int launch(const void* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared,
           Stream stream) {
  const auto known = kernels.find(kernel);
  if (!marked || known == kernels.end()) return -1;
  if (!failure.empty()) return not_ready;
  if (!module) {
    const auto wake = of_runtime<int(void*)>("cudaFree");  // the runtime's context is made
    if (wake) wake(nullptr);
    if (const std::string why = load_module(); !why.empty()) return fail(why);
  }
  const auto find =
      of_driver<int(DriverFunction*, DriverModule, const char*)>("cuModuleGetFunction");
  const auto start = of_driver<int(DriverFunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                   unsigned, unsigned, Stream, void**, void**)>("cuLaunchKernel");
  const auto set = of_driver<int(DriverFunction, int, int)>("cuFuncSetAttribute");
  DriverFunction function = nullptr;
  if (!find || !start || !set) return fail("the CUDA driver lacks functions");
  if (find(&function, module, known->second.name.c_str()) != 0) return -1;  // of another source
  constexpr int most_dynamic_shared = 8;
  if (shared > 0) set(function, most_dynamic_shared, static_cast<int>(shared));
  note_resources(known->second, function);
  const int error = start(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                          static_cast<unsigned>(shared), stream, arguments, nullptr);
  return error == 0 ? 0 : fail("the rewritten kernel cannot be launched: " + error_name(error));
}

template <class Function, class... Arguments>
auto pass_on(const char* name, Arguments... arguments) {
  return of_runtime<Function>(name)(arguments...);
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's
extern "C" {

const char* lanescope_mark_launches(const MarkedCuda* wanted, MarkedResources* to) {
  static std::string said;
  said = failure;
  if (marked && marked != wanted) {
    const auto unload = of_driver<int(DriverModule)>("cuModuleUnload");
    const auto unshare = of_runtime<int(void*)>("cudaHostUnregister");
    if (module && unload) unload(module);
    for (const MarkedCuda::Buffer& buffer : marked->buffers) {
      if (module && buffer.bytes > 0 && unshare) unshare(buffer.data);
    }
    module = nullptr;
  }
  marked = wanted;
  resources = to;
  failure.clear();
  return said.empty() ? nullptr : said.c_str();
}

void __cudaRegisterFunction(void** handle, const char* function, char* device_function,
                            const char* name, int threads, void* tid, void* bid, void* block_dim,
                            void* grid_dim, int* warp_size) {
  kernels[function] = {name, function};
  pass_on<void(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*)>(
      "__cudaRegisterFunction", handle, function, device_function, name, threads, tid, bid,
      block_dim, grid_dim, warp_size);
}
int cudaLaunchKernel(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                     std::size_t shared, Stream stream) {
  const int own = launch(kernel, grid, block, arguments, shared, stream);
  if (own >= 0) return own;
  return pass_on<int(const void*, Dim3, Dim3, void**, std::size_t, Stream)>(
      "cudaLaunchKernel", kernel, grid, block, arguments, shared, stream);
}
/// CUDA 13: the stub asks for the kernel's handle first, and launches that.
int __cudaGetKernel(void** handle, const void* kernel) {
  const int error = pass_on<int(void**, const void*)>("__cudaGetKernel", handle, kernel);
  const auto known = kernels.find(kernel);
  if (error == 0 && known != kernels.end()) kernels[*handle] = known->second;
  return error;
}
int __cudaLaunchKernel(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                       std::size_t shared, Stream stream) {
  const int own = launch(kernel, grid, block, arguments, shared, stream);
  if (own >= 0) return own;
  return pass_on<int(const void*, Dim3, Dim3, void**, std::size_t, Stream)>(
      "__cudaLaunchKernel", kernel, grid, block, arguments, shared, stream);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

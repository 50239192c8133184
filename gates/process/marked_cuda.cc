// Marked kernels on a GPU: a library of its own, loaded for all before the module, so that the
// module's calls of CUDA's runtime come here first. A launch becomes one of the same kernel in the
// rewritten PTX, which the driver compiles; all else passes on.

#include "gates/process/marked_cuda.h"

#include <dlfcn.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "debug/ptx/runtime_entry.h"
#include "gates/process/cuda_driver.h"

namespace {

using lanescope::CudaDriver;
using lanescope::MarkedCuda;
using lanescope::MarkedResources;

struct Dim3 {
  unsigned x, y, z;
};
using Stream = void*;
using DriverModule = void*;
using DriverFunction = void*;
/// cudaLaunchConfig_t (CUDA Runtime API).
struct RuntimeConfig {
  Dim3 grid, block;
  std::size_t shared;
  Stream stream;
  void* attributes;
  unsigned attribute_count;
};

/// A function of CUDA's runtime, which the module is linked with (CUDA Runtime API).
template <class Function>
Function* of_runtime(const char* function) {
  for (const char* name : {"libcudart.so.13", "libcudart.so.12"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library) return reinterpret_cast<Function*>(dlsym(library, function));
  }
  return nullptr;
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
std::set<std::string> with_markers;  ///< kernels of the rewritten text
std::string failure;

constexpr int not_ready = 999;  // cudaErrorUnknown: `failure` says what

int fail(const std::string& what) {
  if (failure.empty()) failure = what;
  return not_ready;
}

/// The kernels of a rewritten text that had markers: what is declared for them is in their bodies.
std::set<std::string> marked_kernels(const std::string& text) {
  std::set<std::string> names;
  constexpr std::string_view entry = ".entry ";
  for (std::size_t at = text.find(entry); at != text.npos;) {
    const std::size_t name = at + entry.size(), next = text.find(entry, name);
    const std::size_t declared = text.find(lanescope::ptx::marker_register, name);
    if (declared < next) names.insert(text.substr(name, text.find_first_of(" (\n", name) - name));
    at = next;
  }
  return names;
}

/// Compiles the rewritten PTX, and tells it where the buffers are.
std::string load_module() {
  std::ifstream file(marked->ptx, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) return "the rewritten PTX cannot be read";
  with_markers = marked_kernels(text);
  if (std::string why = CudaDriver::load(text, &module); !why.empty()) return why;
  return CudaDriver::place_buffers(*marked, lanescope::ptx::marker_buffers_name, module);
}

/// What the module's own kernel takes, by the runtime's handle of it.
void note_resources(const Kernel& kernel, DriverFunction rewritten) {
  const auto of = [](DriverFunction function, int which) {
    return CudaDriver::attribute(function, which);
  };
  const auto own = of_runtime<int(DriverFunction*, const void*)>("cudaGetFuncBySymbol");
  DriverFunction function = nullptr;
  *resources = {-1, -1, of(rewritten, CudaDriver::registers),
                of(rewritten, CudaDriver::local_bytes)};
  if (!own || own(&function, kernel.function) != 0) return;
  resources->registers = of(function, CudaDriver::registers);
  resources->local = of(function, CudaDriver::local_bytes);
}

/// CUlaunchConfig, as which a cudaLaunchConfig_t goes on: their attributes are the same.
struct DriverConfig {
  Dim3 grid, block;
  unsigned shared;
  Stream stream;
  void* attributes;
  unsigned attribute_count;
};

/// Launches the kernel of the rewritten module. Returns CUDA's error; −1: the launch is another's.
int launch(const void* kernel, const DriverConfig& config, void** arguments) {
  const auto known = kernels.find(kernel);
  if (!marked || known == kernels.end()) return -1;
  if (!failure.empty()) return not_ready;
  if (!module) {
    const auto wake = of_runtime<int(void*)>("cudaFree");  // the runtime's context is made
    if (wake) wake(nullptr);
    if (const std::string why = load_module(); !why.empty()) return fail(why);
  }
  DriverFunction function = nullptr;
  const char* name = known->second.name.c_str();
  if (CudaDriver::call("cuModuleGetFunction", &function, module, name) != 0) {
    return -1;  // of another source
  }
  const auto shared = static_cast<int>(config.shared);
  if (shared > 0) {
    CudaDriver::call("cuFuncSetAttribute", function, CudaDriver::most_dynamic_shared, shared);
  }
  if (with_markers.contains(known->second.name)) note_resources(known->second, function);
  const int error = CudaDriver::call("cuLaunchKernelEx", &config, function, arguments,
                                     static_cast<void**>(nullptr));
  return error == 0
             ? 0
             : fail("the rewritten kernel cannot be launched: " + CudaDriver::error_name(error));
}

int launch(const void* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared,
           Stream stream) {
  return launch(kernel, {grid, block, static_cast<unsigned>(shared), stream, nullptr, 0},
                arguments);
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
    if (module) {
      CudaDriver::call("cuModuleUnload", module);
      CudaDriver::give_back_buffers(*marked);
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

/// cudaLaunchKernelEx, which clusters are launched with, and CUTLASS's kernels.
int cudaLaunchKernelExC(const RuntimeConfig* config, const void* kernel, void** arguments) {
  const DriverConfig same = {
      config->grid,   config->block,      static_cast<unsigned>(config->shared),
      config->stream, config->attributes, config->attribute_count};
  const int own = launch(kernel, same, arguments);
  if (own >= 0) return own;
  return pass_on<int(const RuntimeConfig*, const void*, void**)>("cudaLaunchKernelExC", config,
                                                                 kernel, arguments);
}
/// A program that launches with the driver asks for the function first.
int cudaGetFuncBySymbol(DriverFunction* function, const void* kernel) {
  const int error =
      pass_on<int(DriverFunction*, const void*)>("cudaGetFuncBySymbol", function, kernel);
  const auto known = kernels.find(kernel);
  if (error == 0 && known != kernels.end()) kernels[*function] = known->second;
  return error;
}
int cuLaunchKernel(DriverFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   Stream stream, void** arguments, void** extra) {
  const int own = launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, arguments,
                         shared, stream);
  if (own >= 0) return own;
  return CudaDriver::call("cuLaunchKernel", function, grid_x, grid_y, grid_z, block_x, block_y,
                          block_z, shared, stream, arguments, extra);
}
int cuLaunchKernelEx(const DriverConfig* config, DriverFunction function, void** arguments,
                     void** extra) {
  const int own = launch(function, *config, arguments);
  if (own >= 0) return own;
  return CudaDriver::call("cuLaunchKernelEx", config, function, arguments, extra);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

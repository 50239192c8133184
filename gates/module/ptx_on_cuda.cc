#include "gates/module/ptx_on_cuda.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "debug/ptx/rewrite_markers.h"
#include "debug/ptx/runtime_entry.h"
#include "gates/process/cuda_driver.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// What went wrong, and which end of a run that is.
struct Failure {
  ModuleStatus status;
  std::string what;
};

void demand(int error, const std::string& what, ModuleStatus status = ModuleStatus::kernel_fault) {
  constexpr int out_of_memory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  if (error == 0) return;
  throw Failure{error == out_of_memory ? ModuleStatus::no_memory : status,
                what + ": " + CudaDriver::error_name(error)};
}

/// The first device, with the context that CUDA's runtime would use too, for this thread.
int open_device() {
  int device = 0;
  const auto demand_device = [](int error, const char* what) {
    demand(error, what, ModuleStatus::no_device);
  };
  demand_device(CudaDriver::call("cuInit", 0u), "no CUDA driver answers");
  demand_device(CudaDriver::call("cuDeviceGet", &device, 0), "there is no CUDA device");
  static void* context = nullptr;
  if (!context) {
    demand_device(CudaDriver::call("cuDevicePrimaryCtxRetain", &context, device),
                  "the CUDA device gives no context");
  }
  demand_device(CudaDriver::call("cuCtxSetCurrent", context), "the CUDA device gives no context");
  return device;
}

/// A buffer of the host's on the device, with its guards; where it is a result in a run that shall
/// survive a fault, the host's memory itself.
class OnDevice {
 public:
  OnDevice(const ModuleBuffer& host, bool mapped) : host_(host), mapped_(mapped) {
    if (host.bytes == 0) return;
    const std::size_t bytes = guarded_bytes(host);
    const char* what = "memory of the device";
    if (mapped) {
      demand(CudaDriver::call("cuMemHostRegister_v2", guarded(host), bytes, 2u), what);
      demand(CudaDriver::call("cuMemHostGetDevicePointer_v2", &whole_, guarded(host), 0u), what);
      return;
    }
    demand(CudaDriver::call("cuMemAlloc_v2", &whole_, bytes), what);
    demand(
        CudaDriver::call("cuMemcpyHtoD_v2", whole_, static_cast<const void*>(guarded(host)), bytes),
        "copying the inputs to the device");
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (!whole_) return;
    if (mapped_) {
      CudaDriver::call("cuMemHostUnregister", guarded(host_));
    } else {
      CudaDriver::call("cuMemFree_v2", whole_);
    }
  }
  /// Where the tensor itself begins.
  void* data() const { return whole_ ? static_cast<char*>(whole_) + guard_bytes : nullptr; }
  void copy_back() const {
    if (mapped_ || !whole_) return;
    demand(CudaDriver::call("cuMemcpyDtoH_v2", guarded(host_), whole_, guarded_bytes(host_)),
           "copying the results from the device");
  }

 private:
  ModuleBuffer host_;
  bool mapped_;
  void* whole_ = nullptr;
};

/// Memory of the device for one launch.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    for (void* memory : all_) CudaDriver::call("cuMemFree_v2", memory);
  }
  /// With what lies at `from`, if that is given.
  void* allocate(std::size_t bytes, const void* from) {
    void* memory = nullptr;
    if (CudaDriver::call("cuMemAlloc_v2", &memory, bytes) != 0) return nullptr;
    all_.push_back(memory);
    if (from) {
      demand(CudaDriver::call("cuMemcpyHtoD_v2", memory, from, bytes), "copying an argument");
    }
    return memory;
  }

 private:
  std::vector<void*> all_;
};

/// A module of the device, compiled from PTX.
class Compiled {
 public:
  Compiled(const std::string& text, const std::string& kernel) {
    if (const std::string why = CudaDriver::load(text, &module_); !why.empty()) {
      throw Failure{ModuleStatus::refused, why};
    }
    demand(CudaDriver::call("cuModuleGetFunction", &function_, module_, kernel.c_str()),
           "the compiled PTX has no kernel " + kernel, ModuleStatus::refused);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { CudaDriver::call("cuModuleUnload", module_); }
  void* module() const { return module_; }
  void* function() const { return function_; }

 private:
  void *module_ = nullptr, *function_ = nullptr;
};

std::string text_of_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The text as it is, but where ptxas may not contract sums of products: it takes that of the text
/// alone.
std::string text_of(const PtxLaunch::Part& part) {
  const ptx::Module& module = part.module;
  return module.contracts ? *module.text : ptx::rewrite_markers(module, {}, {});
}

/// The buffers of markers, as long as a run uses them.
class MarkerMemory {
 public:
  MarkerMemory(const MarkedCuda* marked, void* module) : marked_(marked) {
    if (!marked) return;
    const std::string why = CudaDriver::place_buffers(*marked, ptx::marker_buffers_name, module);
    if (!why.empty()) throw Failure{ModuleStatus::refused, why};
  }
  MarkerMemory(const MarkerMemory&) = delete;
  MarkerMemory& operator=(const MarkerMemory&) = delete;
  ~MarkerMemory() {
    if (marked_) CudaDriver::give_back_buffers(*marked_);
  }

 private:
  const MarkedCuda* marked_;
};

void launch(const Compiled& compiled, const PtxLaunch::Values& values, const std::string& where) {
  std::vector<void*> pointers;
  for (const std::uint64_t& value : values.arguments) {
    pointers.push_back(const_cast<std::uint64_t*>(&value));
  }
  const auto shared = static_cast<unsigned>(values.shared);
  if (shared > 0) {
    CudaDriver::call("cuFuncSetAttribute", compiled.function(), CudaDriver::most_dynamic_shared,
                     static_cast<int>(shared));
  }
  const PtxLaunch::Sides &grid = values.grid, &block = values.block;
  demand(CudaDriver::call("cuLaunchKernel", compiled.function(), grid[0], grid[1], grid[2],
                          block[0], block[1], block[2], shared, static_cast<void*>(nullptr),
                          pointers.data(), static_cast<void**>(nullptr)),
         where + ": the kernel cannot be launched", ModuleStatus::refused);
}

/// The first of several kernels is the one that has markers.
void launch(const PtxLaunch& kernel, ModuleRun* r, const MarkedCuda* marked,
            MarkedResources* resources) {
  open_device();
  std::vector<std::unique_ptr<Compiled>> compiled;
  for (const PtxLaunch::Part& part : kernel.parts()) {
    const bool has_markers = marked && compiled.empty();
    compiled.push_back(std::make_unique<Compiled>(
        has_markers ? text_of_file(marked->ptx) : text_of(part), part.how.kernel));
  }
  if (resources) {
    const PtxLaunch::Part& first = kernel.parts().front();
    const Compiled own(text_of(first), first.how.kernel);
    const auto of = [](const Compiled& one, int which) {
      return CudaDriver::attribute(one.function(), which);
    };
    *resources = {of(own, CudaDriver::registers), of(own, CudaDriver::local_bytes),
                  of(*compiled.front(), CudaDriver::registers),
                  of(*compiled.front(), CudaDriver::local_bytes)};
  }
  const MarkerMemory memory(marked, compiled.front()->module());
  const bool maps = r->surviving != 0;
  const OnDevice q(r->q, false), k(r->k, false), v(r->v, false), q_scale(r->q_scale, false),
      k_scale(r->k_scale, false), v_scale(r->v_scale, false), o(r->o, maps), lse(r->lse, maps);
  PlainRun run = plain::plain_run_of(*r);
  run.q = q.data();
  run.k = k.data();
  run.v = v.data();
  run.q_scale = static_cast<const float*>(q_scale.data());
  run.k_scale = static_cast<const float*>(k_scale.data());
  run.v_scale = static_cast<const float*>(v_scale.data());
  run.o = o.data();
  run.lse = static_cast<float*>(lse.data());
  Scratch scratch;
  const std::vector<PtxLaunch::Values> values = kernel.values(
      run, [&](std::size_t bytes, const void* from) { return scratch.allocate(bytes, from); });
  const std::string where = launch_description_path(kernel.path()).string();
  for (std::size_t i = 0; i < values.size(); ++i) launch(*compiled[i], values[i], where);
  demand(CudaDriver::call("cuCtxSynchronize"), "running the kernel");
  for (const OnDevice* tensor : {&q, &k, &v, &q_scale, &k_scale, &v_scale, &o, &lse}) {
    tensor->copy_back();
  }
}

}  // namespace

ModuleStatus cuda_device(char* name, int name_bytes, char* arch, int arch_bytes) {
  try {
    const int device = open_device();
    int major = 0, minor = 0;
    constexpr int compute_major = 75, compute_minor = 76;  // CUdevice_attribute
    demand(CudaDriver::call("cuDeviceGetName", name, name_bytes, device), "the device has no name");
    CudaDriver::call("cuDeviceGetAttribute", &major, compute_major, device);
    CudaDriver::call("cuDeviceGetAttribute", &minor, compute_minor, device);
    std::snprintf(arch, static_cast<std::size_t>(arch_bytes), "sm_%d%d", major, minor);
    return ModuleStatus::ok;
  } catch (const Failure& failure) {
    std::snprintf(name, static_cast<std::size_t>(name_bytes), "%s", failure.what.c_str());
    return ModuleStatus::no_device;
  }
}

ModuleStatus run_on_cuda(const PtxLaunch& kernel, ModuleRun* r, const MarkedCuda* marked,
                         MarkedResources* resources) {
  if (r->timing) return plain::refuse(r, "a kernel given as PTX is judged, not timed");
  try {
    launch(kernel, r, marked, resources);
    return ModuleStatus::ok;
  } catch (const Failure& failure) {
    plain::refuse(r, failure.what.c_str());
    return failure.status;
  } catch (const UsageError& error) {
    return plain::refuse(r, error.what());
  }
}

}  // namespace lanescope

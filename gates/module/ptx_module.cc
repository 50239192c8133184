#include "gates/module/ptx_module.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "debug/ptx/runtime.h"
#include "gates/module/plain_kernel.h"
#include "gates/module/ptx_launch.h"
#include "gates/module/ptx_on_cuda.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::unique_ptr<PtxLaunch> kernel;
int module_on_machine = -1;
const MarkedCuda* marked = nullptr;  ///< of the run on a GPU, with what it takes there
MarkedResources* resources = nullptr;

/// Runs it on the SIMT machine. What goes wrong in it the device knows.
void launch_on_machine(const PlainRun& run, std::vector<void*>& scratch) {
  ptx::Device& device = ptx::Device::instance();
  const PtxLaunch::Values values = kernel->values(run, [&](std::size_t bytes) {
    void* memory = device.allocate(bytes, false);
    if (memory) scratch.push_back(memory);
    return memory;
  });
  std::vector<void*> pointers;
  for (const std::uint64_t& value : values.arguments) {
    pointers.push_back(const_cast<std::uint64_t*>(&value));
  }
  const auto outcome =
      device.launch(device.find_kernel(module_on_machine, kernel->description().kernel),
                    values.grid, values.block, values.shared, pointers.data());
  if (outcome == ptx::Device::Outcome::refused_sides) {
    throw UsageError(launch_description_path(kernel->path()).string() + ": " + device.refusal());
  }
}

ModuleStatus run_on_machine(ModuleRun* r) {
  ptx::Device& device = ptx::Device::instance();
  std::string refusal;
  std::vector<void*> scratch;
  const ModuleBuffer buffers[] = {r->q,       r->k,       r->v, r->q_scale,
                                  r->k_scale, r->v_scale, r->o, r->lse};
  for (const ModuleBuffer& buffer : buffers) {
    if (buffer.bytes > 0) device.map(guarded(buffer), guarded_bytes(buffer));
  }
  try {
    launch_on_machine(plain::plain_run_of(*r), scratch);
  } catch (const UsageError& error) {
    refusal = error.what();
  }
  for (void* memory : scratch) device.release(memory);
  for (const ModuleBuffer& buffer : buffers) {
    if (buffer.bytes > 0) device.unmap(guarded(buffer));
  }
  return refusal.empty() ? ModuleStatus::ok : plain::refuse(r, refusal.c_str());
}

ModuleStatus machine(char* name, int name_bytes, char* arch, int arch_bytes) {
  std::snprintf(name, static_cast<std::size_t>(name_bytes), "SIMT machine");
  std::snprintf(arch, static_cast<std::size_t>(arch_bytes), "any");
  return ModuleStatus::ok;
}

const Module* make_module(bool on_cuda) {
  const LaunchDescription& d = kernel->description();
  static PlainKernel plain;
  plain = {kernel->name(), d.dtype, d.head_dim,
           d.br,           d.bc,    d.tensor_cores ? Products::tensor_core : Products::fp32_fma,
           d.writes_lse()};
  static Module module;
  module = *plain_module(plain, nullptr);
  if (on_cuda) {
    module.backend = "cuda";
    module.device = cuda_device;
    module.run = [](ModuleRun* r) { return run_on_cuda(*kernel, r, marked, resources); };
    return &module;
  }
  ptx::Device& device = ptx::Device::instance();
  module_on_machine = device.add_module(kernel->take_module());
  device.find_kernel(module_on_machine, d.kernel);  // what it does not execute is said at once
  module.checked = true;
  module.device = machine;
  module.run = run_on_machine;
  return &module;
}

}  // namespace
}  // namespace lanescope

extern "C" const lanescope::Module* lanescope_ptx_module(const char* path, bool on_cuda, char* why,
                                                         std::size_t why_bytes) {
  using namespace lanescope;
  static std::string opened;
  static const Module* module = nullptr;
  std::error_code error;
  if (module && std::filesystem::equivalent(opened, path, error)) return module;
  try {
    if (module) throw UsageError("another kernel given as PTX is open: " + opened);
    kernel = std::make_unique<PtxLaunch>(path);
    opened = path;
    return module = make_module(on_cuda);
  } catch (const std::exception& error) {
    std::snprintf(why, why_bytes, "%s", error.what());
    return nullptr;
  }
}

extern "C" const char* lanescope_mark_ptx(const lanescope::MarkedCuda* wanted,
                                          lanescope::MarkedResources* to) {
  lanescope::marked = wanted;
  lanescope::resources = to;
  return nullptr;
}

#include "gates/module/ptx_module.h"

#include <cstring>
#include <filesystem>
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

const PtxLaunch* kernel = nullptr;    ///< on the machine
std::vector<int> modules_on_machine;  ///< of its parts
const MarkedCuda* marked = nullptr;   ///< of the run on a GPU, with what it takes there
MarkedResources* resources = nullptr;

/// Runs it on the SIMT machine. What goes wrong in it the device knows.
void launch_on_machine(const PlainRun& run, std::vector<void*>& scratch) {
  ptx::Device& device = ptx::Device::instance();
  const auto allocate = [&](std::size_t bytes, const void* from) {
    void* memory = device.allocate(bytes, false);
    if (!memory) return memory;
    scratch.push_back(memory);
    if (from) {
      std::memcpy(memory, from, bytes);
      device.note_write(memory, nullptr, bytes);
    }
    return memory;
  };
  const std::vector<PtxLaunch::Values> all = kernel->values(run, allocate);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const PtxLaunch::Values& values = all[i];
    std::vector<void*> pointers;
    for (const std::uint64_t& value : values.arguments) {
      pointers.push_back(const_cast<std::uint64_t*>(&value));
    }
    const auto outcome =
        device.launch(device.find_kernel(modules_on_machine[i], kernel->parts()[i].how.kernel),
                      values.grid, values.block, values.shared, pointers.data(), {});
    if (outcome == ptx::Device::Outcome::refused_sides) {
      throw UsageError(launch_description_path(kernel->path()).string() + ": " + device.refusal());
    }
    if (outcome != ptx::Device::Outcome::ok) return;  // the device knows
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

PlainKernel plain_of(const PtxLaunch& launch) {
  const LaunchDescription& d = launch.description();
  const Products products =
      d.products.value_or(d.dtype == ElementType::f32 ? Products::fp32_fma : Products::tensor_core);
  return {launch.name(), d.dtype, d.head_dim, d.br, d.bc, products, d.writes_lse(), d.lse_base_2()};
}

const Module* module_on_cuda(const std::string& path) {
  static const PtxLaunch launch(path);
  static const PlainKernel plain = plain_of(launch);
  static Module module = *plain_module(plain, nullptr);
  module.backend = "cuda";
  module.device = cuda_device;
  module.run = [](ModuleRun* r) { return run_on_cuda(launch, r, marked, resources); };
  return &module;
}

const Module* module_on_the_machine(const std::string& path) {
  static PtxLaunch launch(path);
  static const PlainKernel plain = plain_of(launch);
  static Module module = *plain_module(plain, nullptr);
  kernel = &launch;
  ptx::Device& device = ptx::Device::instance();
  if (modules_on_machine.empty()) {
    for (PtxLaunch::Part& part : launch.parts()) {
      modules_on_machine.push_back(device.add_module(std::move(part.module)));
    }
  }
  // What it does not execute is said at once.
  for (std::size_t i = 0; i < modules_on_machine.size(); ++i) {
    device.find_kernel(modules_on_machine[i], launch.parts()[i].how.kernel);
  }
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
  try {
    std::error_code error;
    if (!opened.empty() && !std::filesystem::equivalent(opened, path, error)) {
      throw UsageError("another kernel given as PTX is open: " + opened);
    }
    const Module* module = on_cuda ? module_on_cuda(path) : module_on_the_machine(path);
    opened = path;
    return module;
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

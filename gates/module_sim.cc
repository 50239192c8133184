#include <cstdio>

#include "debug/simt/machine.h"
#include "gates/module_entry.h"

namespace lanescope {

ModuleStatus describe_device(char* name, int name_bytes, char* arch, int arch_bytes) {
  std::snprintf(name, static_cast<std::size_t>(name_bytes), "SIMT machine (Hopper rules)");
  std::snprintf(arch, static_cast<std::size_t>(arch_bytes), "sm_90");
  return ModuleStatus::ok;
}

ModuleStatus run_module(ModuleRun* run) {
  const KernelArguments arguments = arguments_of(*run);
  const simt::Launch launch{run->blocks, Kernel::threads, sizeof(Kernel::SharedMemory),
                            run->workers};
  try {
    simt::launch(
        launch,
        [](const void* a) {
          auto* smem = reinterpret_cast<Kernel::SharedMemory*>(simt::shared_memory());
          run_lane(*static_cast<const KernelArguments*>(a), *smem);
        },
        &arguments);
  } catch (const simt::Fault& fault) {
    std::snprintf(run->message, static_cast<std::size_t>(run->message_bytes), "%s", fault.what());
    return ModuleStatus::kernel_fault;
  }
  return ModuleStatus::ok;
}

}  // namespace lanescope

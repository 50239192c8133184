#include <cstdio>

#include "debug/simt/launch.h"
#include "gates/module/probes_entry.h"

lanescope::ModuleStatus run_probes(lanescope::ProbeLaunch* run) {
  using namespace lanescope;
  std::snprintf(run->device, sizeof run->device, "SIMT machine (%s rules)", run->rules->title);
  std::snprintf(run->arch, sizeof run->arch, "%s", run->rules->arch);
  simt::Launch launch;
  launch.blocks = probe_blocks(*run);
  launch.workers = 1;
  launch.tensor_core = run->rules->tensor_core;
  const bool ran = simt::launch(
      launch, [](const void* probes) { probe_lane(*static_cast<const ProbeLaunch*>(probes)); }, run,
      run->message, sizeof run->message);
  return ran ? ModuleStatus::ok : ModuleStatus::kernel_fault;
}

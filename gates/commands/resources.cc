#include "gates/measure/resources.h"

#include <cstdio>
#include <memory>

#include "gates/commands/command.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"

namespace lanescope {
namespace {

ExitCode run_resources(const ResourceOptions& options, const Output& output) {
  std::size_t said = 0;
  const auto say = [&](const ResourceReport& part, std::size_t to_come) {
    if (output.json) return;
    std::fputs(resource_rows(part).c_str(), stdout);
    std::fflush(stdout);
    said = part.uses.size();
    log::info("these were at hand; " + std::to_string(to_come) + " modules are to be compiled");
  };
  const ResourceReport report = measure_resources(options, say);
  const std::string text =
      output.json ? resources_json(report) + "\n" : resources_text(report, said);
  std::fputs(text.c_str(), stdout);
  const bool holds = !report.recorded.empty() || report.within();
  return holds ? ExitCode::ok : ExitCode::diverged;
}

}  // namespace

Action resources_command(Options& options) {
  const auto given = std::make_shared<ResourceOptions>();
  add_kernel(options, given->kernel);
  options.add("--gate", given->gate, "only this gate").suggest(gate_names());
  options.add("--dtype", given->dtype, "only this type").suggest({"f16", "bf16", "e4m3"});
  options.add("--d", given->d, "only this head dimension");
  options.add("--tile-shape", given->tile_shape, "only this tile, e.g. 64x32");
  options.add_flag("--record", given->record,
                   "write what they take as their budgets (kernels/budgets)");
  return [given](const Output& output) { return run_resources(*given, output); };
}

}  // namespace lanescope

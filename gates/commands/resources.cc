#include "gates/measure/resources.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "gates/build/module_file.h"
#include "gates/commands/command.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"
#include "gates/measure/marked_code.h"

namespace lanescope {
namespace {

/// The machine code of a kernel's PTX with markers, and without.
ExitCode compare_code(const ResourceOptions& options, const Output& output) {
  if (options.against.empty()) {
    throw UsageError(
        "resources: --against says which PTX has the same kernel without markers: what "
        "nvcc -DLANESCOPE_UNMARKED leaves");
  }
  const std::vector<MarkedCode> kernels = compare_marked_code(options.kernel, options.against);
  const std::string text =
      output.json ? marked_code_json(kernels) + "\n" : marked_code_text(kernels);
  std::fputs(text.c_str(), stdout);
  const bool same = std::all_of(kernels.begin(), kernels.end(),
                                [](const MarkedCode& kernel) { return kernel.same; });
  return same ? ExitCode::ok : ExitCode::diverged;
}

ExitCode run_resources(const ResourceOptions& options, const Output& output) {
  if (is_ptx_path(options.kernel)) return compare_code(options, output);
  if (!options.against.empty()) throw UsageError("resources: --against goes with a kernel's PTX");
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
  options.add("--dtype", given->dtype, "only this type").suggest({"f16", "bf16", "e4m3", "f32"});
  options.add("--d", given->d, "only this head dimension");
  options.add("--tile-shape", given->tile_shape, "only this tile, e.g. 64x32");
  options.add("--against", given->against, "of x.ptx with markers: the same kernel without")
      .suggest({}, ".ptx");
  options.add_flag("--record", given->record,
                   "write what they take as their budgets (kernels/budgets)");
  return [given](const Output& output) { return run_resources(*given, output); };
}

}  // namespace lanescope

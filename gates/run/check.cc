#include "gates/run/check.h"

#include "debug/simt/checker.h"
#include "reference/error.h"

namespace lanescope {

CheckReport check_kernel(RunOptions options) {
  if (options.backend == "cuda") {
    throw UsageError("check runs on sim: on a GPU, NVIDIA's compute-sanitizer checks memory");
  }
  options.backend = "sim";
  options.checked = true;
  PreparedRun run = prepare(options);
  const Module& module = *run.module;
  simt::Checker checker;
  run.request.checker = &checker;
  const Dump dump = launch(module, run.module_name, run.request);

  CheckReport report;
  report.kernel = module.kernel;
  report.gate = name_of(module.gate);
  report.module = run.module_name;
  report.problem = run.request.problem;
  report.head_dim = module.head_dim;
  report.fault = dump.info.incomplete;
  report.stop = dump.info.stop.kind;
  report.warnings = run.warnings;
  report.knows_progress = !module.marked_ptx;
  report.in_step = !checker.lines().empty();
  report.notes = checker.notes();
  report.nan = checker.nan_origin();
  report.sites.assign(module.sites, module.sites + module.site_count);
  const auto shared_element = [&](std::int64_t offset) -> std::optional<SharedPlace> {
    const char* tile = nullptr;
    int row = 0, col = 0;
    if (!module.shared_element(offset, &tile, &row, &col)) return std::nullopt;
    return SharedPlace{tile, row, col};
  };
  describe_findings(checker, shared_element, report);
  return report;
}

}  // namespace lanescope

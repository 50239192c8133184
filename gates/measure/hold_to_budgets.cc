#include "gates/measure/hold_to_budgets.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "debug/judge/diff.h"
#include "debug/report/suggested_command.h"
#include "gates/run/launch.h"
#include "gates/run/run_options.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// What a figure may fall by before it is looked into: an eighth.
bool fell_far(std::int64_t is, std::int64_t budget) { return is * 8 < budget * 7; }

void judge(ResourceUse& use) {
  const Figures& is = use.now.figures;
  const Figures& budget = use.budget->figures;
  const auto at_most = [&](const char* figure, std::int64_t Figures::*of) {
    if (is.*of > budget.*of) use.over.push_back({figure, is.*of, budget.*of});
  };
  at_most("registers", &Figures::registers);
  at_most("bytes of stack", &Figures::stack);
  at_most("bytes of spill stores", &Figures::spill_stores);
  at_most("bytes of spill loads", &Figures::spill_loads);
  at_most("bytes of shared memory", &Figures::shared);
  if (is.blocks < budget.blocks) use.over.push_back({"blocks", is.blocks, budget.blocks});
  for (const auto& [figure, of] : {std::pair{"registers", &Figures::registers},
                                   std::pair{"bytes of shared memory", &Figures::shared}}) {
    if (fell_far(is.*of, budget.*of)) use.fell.push_back({figure, is.*of, budget.*of});
  }
}

/// The run that judges a module whose figures fell: ragged tiles, some of them on the diagonal.
RunOptions judging_run(const ModuleName& name) {
  RunOptions run;
  run.kernel = name.kernel;
  run.gate = name_of(name.gate);
  run.dtype = name_of(name.dtype);
  run.tile_shape = tile_text(name.br, name.bc);
  run.shape = "b=1,h=1,s=" + std::to_string(2 * std::max(name.br, name.bc) + 6) +
              ",d=" + std::to_string(name.head_dim);
  run.causal = true;
  run.untraced = name.untraced;
  return run;
}

std::string command_of(const RunOptions& run) {
  return program_name() + " diff " + run.kernel + " " + run.gate + " --dtype " + run.dtype +
         " --tile-shape " + run.tile_shape + " --shape " + run.shape + " --causal" +
         (run.untraced ? " --untraced" : "");
}

void look_into_fall(ResourceUse& use, const ModuleName& name, bool can_run) {
  const RunOptions options = judging_run(name);
  use.diff_command = command_of(options);
  if (!can_run) return;
  const PreparedRun run = prepare(options);
  const Dump dump = launch(*run.module, run.module_name, run.request);
  use.verdict = verdict_of(diff_against_reference(dump));
}

std::string record(const ResourceReport& report, std::vector<Budget> budgets) {
  for (const ResourceUse& use : report.uses) {
    if (use.verdict == "diverged") {
      throw Error(ExitCode::diverged, "nothing is recorded: " + use.now.module +
                                          " takes less than its budget, and its "
                                          "gate diverges from the reference. Code was lost; see: " +
                                          use.diff_command);
    }
    const auto line = std::find_if(budgets.begin(), budgets.end(), [&](const Budget& b) {
      return b.module == use.now.module && b.pass == use.now.pass;
    });
    if (line == budgets.end()) {
      budgets.push_back(use.now);
    } else {
      *line = use.now;
    }
  }
  std::sort(budgets.begin(), budgets.end(), [](const Budget& a, const Budget& b) {
    return std::pair(a.module, a.pass) < std::pair(b.module, b.pass);
  });
  return write_budgets(report.kernel, budgets);
}

}  // namespace

bool ResourceReport::within(const ResourceUse& use, bool has_budgets) {
  return use.over.empty() && (use.budget || !has_budgets) && use.verdict != "diverged";
}

bool ResourceReport::within() const {
  return std::all_of(uses.begin(), uses.end(),
                     [&](const ResourceUse& use) { return within(use, has_budgets); });
}

void hold_to_budgets(const ResourceOptions& options, const std::vector<ModuleName>& modules,
                     bool of_build, ResourceReport& report) {
  const std::optional<std::vector<Budget>> budgets = read_budgets(report.kernel);
  report.has_budgets = budgets.has_value();
  for (std::size_t i = 0; i < report.uses.size(); ++i) {
    ResourceUse& use = report.uses[i];
    for (const Budget& budget : budgets.value_or(std::vector<Budget>())) {
      if (budget.module == use.now.module && budget.pass == use.now.pass) use.budget = budget;
    }
    if (!use.budget) continue;
    if (use.budget->arch != use.now.arch && options.record) {
      use.budget.reset();
      continue;
    }
    if (use.budget->arch != use.now.arch) {
      throw MismatchError("the budgets of " + report.kernel + " are of " + use.budget->arch +
                          ", the modules of " + use.now.arch + ": configure with -Dgpu_arch=" +
                          use.budget->arch + ", or record them anew with --record");
    }
    judge(use);
    if (!use.fell.empty()) look_into_fall(use, modules[i], of_build);
  }
  if (!options.record) return;
  // Of modules that there are no more, no line stays.
  const bool all =
      options.gate.empty() && options.dtype.empty() && options.d == 0 && options.tile_shape.empty();
  report.recorded = record(report, all || !budgets ? std::vector<Budget>() : *budgets);
}

}  // namespace lanescope

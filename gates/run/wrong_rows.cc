#include "gates/run/wrong_rows.h"

#include <optional>
#include <utility>

#include "debug/causes/flaw_trial.h"
#include "debug/causes/scene.h"
#include "gates/process/machine_runtime.h"
#include "gates/run/known_numbers.h"

namespace lanescope {

namespace {

WrongRows wrong_rows(const Dump& dump, const DiffReport& report) {
  WrongRows wrong;
  if (!report.first || !is_output(report.first->site)) return wrong;
  const Scene scene(dump, *report.first);
  const Problem& p = dump.info.problem;
  for (const OutputRow& row : output_rows(scene, std::nullopt, Rows::all)) {
    if (!row.wrong()) continue;
    wrong.rows.push_back((row.batch * p.heads + row.head) * p.len_q + row.query);
    const bool of_log_sum = row.lse && row.lse->wrong();
    wrong.any_log_sum = wrong.any_log_sum || of_log_sum;
    wrong.log_sums = wrong.log_sums && row.lse && !of_log_sum;
  }
  wrong.log_sums = wrong.log_sums && wrong.rows.size() >= 4;
  return wrong;
}

}  // namespace

std::optional<WrongRun> run_wrong(RunOptions options, std::int64_t most_products) {
  options.backend = "sim";
  PreparedRun run = prepare(options);
  if (!machine_runtime() || !may_be_looked_for(run.request.problem, most_products))
    return std::nullopt;
  Dump dump = launch(*run.module, run.module_name, run.request);
  if (dump.info.broke_off()) return std::nullopt;
  WrongRows wrong = wrong_rows(dump, diff_against_reference(dump, options.threads));
  if (wrong.rows.empty()) return std::nullopt;
  run.request.timeout_seconds *= 10;
  return WrongRun{std::move(run), std::move(dump), std::move(wrong)};
}

}  // namespace lanescope

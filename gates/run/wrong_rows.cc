#include "gates/run/wrong_rows.h"

#include <optional>

#include "debug/causes/flaw_trial.h"
#include "debug/causes/scene.h"

namespace lanescope {

WrongRows wrong_rows(const Dump& dump, const DiffReport& report) {
  WrongRows wrong;
  if (!report.first || !is_output(report.first->site)) return wrong;
  const Scene scene(dump, *report.first);
  const Problem& p = dump.info.problem;
  for (const OutputRow& row : output_rows(scene, std::nullopt, Rows::all)) {
    if (!row.wrong()) continue;
    wrong.rows.push_back((row.batch * p.heads + row.head) * p.len_q + row.query);
    wrong.log_sums = wrong.log_sums && row.lse && !row.lse->wrong();
  }
  wrong.log_sums = wrong.log_sums && wrong.rows.size() >= 4;
  return wrong;
}

}  // namespace lanescope

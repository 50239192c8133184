#include <algorithm>
#include <cmath>
#include <optional>

#include "debug/causes/detectors.h"
#include "debug/causes/flaw_trial.h"
#include "debug/causes/phrases.h"
#include "debug/text/text.h"

namespace lanescope {

namespace {

/// By how much the outputs are off in the rows that are wrong, in units of their bounds: from those
/// of a flaw, or from what is right.
double error_of(const Flaw* flaw, PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  double sum = 0;
  for (const OutputRow& row : rows) {
    if (!row.wrong()) break;
    RowPlan plan = inputs.right_plan(row.batch, row.head, row.query);
    if (flaw) flaw->edit(plan);
    const PlannedRow planned = inputs.carry_out(plan);
    for (std::size_t col = 0; col < row.o.size(); ++col) {
      const OutputValue& o = row.o[col];
      sum += std::abs(o.got - planned.o[col]) / std::max(o.bound, 0x1p-30);
    }
  }
  return sum;
}

/// Which rounding comes nearest to outputs that are off by little: the last bits of sums in another
/// order keep it from giving them all.
void find_nearest_rounding(const std::vector<Flaw>& flaws, PlanInputs& inputs,
                           const std::vector<OutputRow>& rows, Findings& findings) {
  const double from_right = error_of(nullptr, inputs, rows);
  const Flaw* nearest = nullptr;
  double least = 0.6 * from_right;
  for (const Flaw& flaw : flaws) {
    if (flaw.cause != Cause::precision_lost) continue;
    const double error = error_of(&flaw, inputs, rows);
    if (!(error < least)) continue;
    least = error;
    nearest = &flaw;
  }
  if (!nearest) return;
  Finding finding{Cause::precision_lost, 0.97};  // near, not equal: never certain
  finding.stage = nearest->stage;
  finding.evidence = {"the outputs are nearest to those of attention " + nearest->text +
                      ": off by " + number_text(100 * least / from_right, 2) +
                      " % of what they are off from the right ones"};
  findings.push_back(finding);
}

}  // namespace

void find_known_flaw(const Scene& scene, Findings& findings) {
  const DumpInfo& info = scene.info();
  const bool traced = std::any_of(info.sites.begin(), info.sites.end(),
                                  [](const DumpSite& entry) { return !is_output(entry.site.id); });
  if (!scene.at_end() || scene.judge().gate() != Gate::fused) return;
  // What a traced kernel holds before the outputs is right: the first that differs are these.
  const auto possible = [&](const Flaw& flaw) {
    return !traced || flaw.stage == Stage::epilogue ||
           (flaw.stage == Stage::combine && info.splits > 1);
  };
  // Of a traced kernel, each output is judged by itself: the other may be right.
  const std::vector<OutputRow> rows =
      output_rows(scene, traced ? std::optional(scene.site()) : std::nullopt);
  if (!may_be_explained(rows)) return;
  PlanInputs inputs(scene.dump());
  struct Fit {
    Flaw flaw;
    FlawTrial trial;
    std::string part;  ///< of the outputs, in which alone the flaw is
    int choices() const { return flaw.choices + (part.empty() ? 0 : 2); }
  };
  std::vector<Fit> fitting;
  const auto attempt = [&](const Flaw& flaw) {
    const FlawTrial trial = try_flaw(flaw, inputs, rows);
    if (!trial.explains()) return;
    const std::string part = trial.wins() ? "" : trial.part(info.br, info.problem.d);
    if (trial.wins() || !part.empty()) fitting.push_back({flaw, trial, part});
  };
  const std::vector<Flaw> flaws = known_flaws(info);
  for (const Flaw& flaw : flaws) {
    if (possible(flaw)) attempt(flaw);
  }
  if (fitting.empty() && !traced) {
    for (const Flaw& flaw : composed_flaws(info)) attempt(flaw);
  }
  if (fitting.empty() && !traced) {
    for (const Flaw& flaw : learned_flaws(inputs, rows)) attempt(flaw);
  }
  if (fitting.empty() && !traced) find_nearest_rounding(flaws, inputs, rows, findings);
  if (fitting.empty()) return;
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const Fit& a, const Fit& b) { return a.choices() < b.choices(); });
  for (const Fit& fit : fitting) {
    const auto& [flaw, trial, part] = fit;
    // Of a traced kernel the rows are of one output alone: the simplest say enough.
    if (traced && fit.choices() > fitting.front().choices()) break;
    Finding finding{flaw.cause, static_cast<double>(trial.explained) / trial.decisive};
    // In a part, the others are as they should be.
    const bool consistent = trial.right == 0 || !part.empty();
    finding.consistent = consistent ? 1 : static_cast<double>(trial.predicted) / trial.right;
    finding.flaw = flaw.text;
    finding.in_part = !part.empty();
    finding.formula = true;
    // Longer ones may stand when other runs have refuted these, and do not compete before.
    finding.bits += 4 * fit.choices() + (fit.choices() > fitting.front().choices() ? 16 : 0);
    if (!traced) finding.stage = flaw.stage;
    finding.evidence = {"the outputs are those of attention " + flaw.text +
                            (part.empty() ? "" : ", in " + part + " alone"),
                        share_text(trial.explained, trial.decisive) + " wrong values and " +
                            share_text(part.empty() ? trial.predicted : trial.right, trial.right) +
                            " others follow from that, in " + std::to_string(rows.size()) +
                            " rows"};
    if (finding.stage) {
      finding.evidence.back() += std::string("; the bug is in the stage ") + name_of(flaw.stage);
    }
    findings.push_back(finding);
  }
}

}  // namespace lanescope

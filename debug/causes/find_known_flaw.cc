#include <algorithm>
#include <optional>

#include "debug/causes/detectors.h"
#include "debug/causes/flaw_trial.h"
#include "debug/causes/phrases.h"

namespace lanescope {

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
  PlanInputs inputs(scene.dump());
  std::vector<std::pair<Flaw, FlawTrial>> fitting;
  const auto attempt = [&](const Flaw& flaw) {
    const FlawTrial trial = try_flaw(flaw, inputs, rows);
    if (trial.explains() && !trial.wins()) {
      const std::string some = trial.part(info.br, info.problem.d);
      if (some.empty()) return;
      fitting.emplace_back(flaw, trial);
      fitting.back().first.text += ", in " + some + " alone";
      fitting.back().first.choices += 2;
      fitting.back().second.predicted = trial.right;  // the others are as they should be
    } else if (trial.wins()) {
      fitting.emplace_back(flaw, trial);
    }
  };
  for (const Flaw& flaw : known_flaws(info)) {
    if (possible(flaw)) attempt(flaw);
  }
  if (fitting.empty() && !traced) {
    for (const Flaw& flaw : composed_flaws(info)) attempt(flaw);
  }
  if (fitting.empty() && !traced) {
    for (const Flaw& flaw : learned_flaws(inputs, rows)) attempt(flaw);
  }
  if (fitting.empty()) return;
  const auto fewest = std::min_element(fitting.begin(), fitting.end(), [](auto& a, auto& b) {
    return a.first.choices < b.first.choices;
  });
  const int choices = fewest->first.choices;
  for (const auto& [flaw, trial] : fitting) {
    if (flaw.choices > choices) continue;
    Finding finding{flaw.cause, static_cast<double>(trial.explained) / trial.decisive};
    finding.consistent = trial.right == 0 ? 1 : static_cast<double>(trial.predicted) / trial.right;
    finding.formula = true;
    finding.bits += 4 * flaw.choices;
    if (!traced) finding.stage = flaw.stage;
    finding.evidence = {"the outputs are those of attention " + flaw.text,
                        share_text(trial.explained, trial.decisive) + " wrong values and " +
                            share_text(trial.predicted, trial.right) +
                            " others follow from that, in " + std::to_string(rows.size()) +
                            " rows"};
    if (finding.stage) {
      finding.evidence.back() += std::string("; the bug is in the stage ") + name_of(flaw.stage);
    }
    findings.push_back(finding);
  }
}

}  // namespace lanescope

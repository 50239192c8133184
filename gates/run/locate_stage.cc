#include "gates/run/locate_stage.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "debug/dump/dump.h"
#include "gates/run/locate_plan.h"
#include "gates/run/options_text.h"
#include "reference/error.h"
#include "reference/gate.h"

namespace lanescope {
namespace {

/// The gate that runs `stage` alone.
std::optional<Gate> gate_of(const Divergence& at) {
  switch (at.stage) {
    case Stage::load:
      return at.site == SiteId::v_smem ? Gate::pv_only : Gate::qk_only;
    case Stage::qk:
      return Gate::qk_only;
    case Stage::softmax:
      return Gate::softmax_only;
    case Stage::pv:
      return Gate::pv_only;
    case Stage::combine:
      return Gate::combine_only;
    default:
      return std::nullopt;
  }
}

/// Whether what a gate is given fits the kernel: P and alpha are those of tiles upwards.
bool fits(Gate gate, const std::optional<Recurrence>& softmax) {
  return gate != Gate::pv_only || !softmax || softmax->order.empty();
}

/// A gate by itself, on the problem that failed.
struct GateRun {
  Dump dump;
  DiffReport report;
};

GateRun run_alone(RunOptions options, Gate gate, const std::string& about, Location& location) {
  options.gate = name_of(gate);
  const PreparedRun run = prepare(options);
  GateRun alone{launch(*run.module, run.module_name, run.request), {}};
  alone.report = diff_against_reference(alone.dump, options.threads);
  location.runs.push_back(
      {options_text(options, alone.dump.info.problem), about, alone.report.match, false});
  return alone;
}

/// After a crash or a hang: runs every gate, to see which of them does not end either.
void find_stage_that_stops(const RunOptions& failed, Location& location) {
  Diagnosis& diagnosis = *location.diagnosis;
  bool any = false, found = false, all_match = true;
  for (const Gate gate : all_gates) {
    if (gate == Gate::fused) continue;
    std::optional<GateRun> alone;
    try {
      alone = run_alone(failed, gate, "the stage alone", location);
    } catch (const UsageError&) {
      continue;  // this build, or this kernel, has no such gate
    }
    any = true;
    const std::string name = name_of(gate);
    if (alone->dump.info.incomplete.empty()) {
      diagnosis.evidence.push_back(name + " alone ends, and " +
                                   (alone->report.match ? "matches" : "diverges"));
      all_match = all_match && alone->report.match;
      continue;
    }
    const Diagnosis stop = diagnose(alone->dump, alone->report);
    diagnosis.evidence.push_back(name + " alone does not end: " + stop.evidence[0]);
    if (!found && stop.first) diagnosis.first = stop.first;
    found = true;
  }
  if (any && !found && all_match) {
    diagnosis.evidence.push_back(
        "no stage alone does it: suspect what fused adds (loads, barriers, the epilogue)");
  }
}

/// Whether `location` names a fault of the stage already.
bool is_named(const Location& location, Stage stage) {
  const auto is_its = [&](const Diagnosis& diagnosis) {
    return diagnosis.first && diagnosis.first->stage == stage;
  };
  return (location.diagnosis && is_its(*location.diagnosis)) ||
         std::any_of(location.others.begin(), location.others.end(), is_its);
}

/// What `report`, a diff of `dump` (a run of fused with `options`), shows of other stages.
void find_others(const RunOptions& options, const Dump& dump, const DiffReport& report,
                 Location& location) {
  if (dump.info.broke_off()) return;
  std::vector<Stage> tried;
  for (const SiteReport& site : report.sites) {
    const bool own = site.judgement == Judgement::local && site.failed > site.unwritten &&
                     site.non_finite == 0 && site.first && !site.first->unwritten;
    if (!own || is_named(location, site.stage)) continue;
    if (std::find(tried.begin(), tried.end(), site.stage) != tried.end()) continue;
    tried.push_back(site.stage);
    const std::optional<Gate> gate =
        site.stage == Stage::load ? std::nullopt : gate_of(*site.first);
    if (!gate) {
      DiffReport of_site = report;
      of_site.first = site.first;
      const Diagnosis other = diagnose(dump, of_site);
      // The stage of an output that tells is that of the bug.
      if (other.certain && !is_named(location, other.first->stage)) {
        location.others.push_back(other);
      }
      continue;
    }
    if (!fits(*gate, report.softmax)) continue;
    GateRun alone;
    try {
      alone = run_alone(options, *gate, "another stage alone", location);
    } catch (const UsageError&) {
      continue;  // this build has no such gate
    }
    if (!alone.report.first || alone.report.first->stage != site.stage) continue;
    location.others.push_back(diagnose(alone.dump, alone.report));
  }
}

}  // namespace

void look_for_others(const RunOptions& failed, const std::vector<Probe>& probes,
                     Location& location) {
  const std::optional<Divergence>& first = location.diagnosis->first;
  if (!first || first->unwritten || !std::isfinite(first->got)) return;
  // Whatever a loop skips is missing, or repeated, in all stages.
  if (location.diagnosis->cause == Cause::tile_skipped) return;
  const auto look = [&](const RunOptions& options) {
    try {
      const PreparedRun run = prepare(options);
      const Dump dump = launch(*run.module, run.module_name, run.request);
      find_others(options, dump, diff_against_reference(dump, options.threads), location);
    } catch (const UsageError&) {
      return;  // the kernel is not built for such a problem
    }
  };
  look(failed);
  for (const Probe& probe : probes) {
    if (probe.broad) look(probe.options);
  }
}

void confirm_stage(const RunOptions& failed, bool combines, Location& location) {
  Diagnosis& diagnosis = *location.diagnosis;
  if (diagnosis.cause == Cause::crash || diagnosis.cause == Cause::hang) {
    if (diagnosis.end_stage) return;  // where its lanes were says it
    return find_stage_that_stops(failed, location);
  }
  if (!diagnosis.first) return;
  const std::optional<Gate> gate = gate_of(*diagnosis.first);
  if (!gate || !fits(*gate, diagnosis.softmax)) return;
  DiffReport report;
  try {
    report = run_alone(failed, *gate, "the stage alone", location).report;
  } catch (const UsageError&) {
    if (is_module_path(location.kernel)) return;  // it is one gate, or lacks markers of this one
    throw;
  }
  const std::string name = name_of(*gate);
  diagnosis.evidence.push_back(
      report.match ? name +
                         " alone matches: it fails only in fused, so suspect what "
                         "surrounds the stage (buffers, barriers, registers in use)"
      : report.first && report.first->stage == diagnosis.first->stage
          ? name + " alone diverges in the same stage: the fault is in the stage itself"
          : name + " alone diverges as well");
  if (!combines || *gate == Gate::combine_only) return;
  const bool match =
      run_alone(failed, Gate::combine_only, "the combine pass alone", location).report.match;
  diagnosis.evidence.push_back(
      match ? "combine_only matches: given right partials, the combine pass is right"
            : "combine_only diverges as well: the combine pass has a fault of its own");
}

}  // namespace lanescope

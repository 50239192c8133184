#include "gates/locate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "debug/commands.h"
#include "debug/error.h"
#include "gates/check.h"
#include "gates/gate.h"
#include "gates/locate_plan.h"

namespace lanescope {
namespace {

/// "mma fused --shape ... --causal", as on the command line.
std::string options_text(const RunOptions& options, const Problem& problem) {
  std::string text = options.kernel + " " + options.gate;
  const auto add = [&](const char* name, const std::string& value, const std::string& usual) {
    if (value != usual) text += std::string(" ") + name + " " + value;
  };
  add("--specimen", options.specimen, "");
  add("--backend", options.backend, "auto");
  if (!options.input.ends_with(".safetensors")) text += " --shape " + shape_option(problem);
  if (options.causal) text += " --causal";
  add("--input", options.input, "random");
  add("--layout", options.layout, "bhsd");
  add("--dtype", options.dtype, "");
  add("--tile-shape", options.tile_shape, "");
  add("--splits", options.splits ? std::to_string(*options.splits) : "", "");
  add("--seed", std::to_string(options.seed), "0");
  return text;
}

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

class Search {
 public:
  explicit Search(const RunOptions& given) : given_(given) {
    given_.gate = name_of(Gate::fused);
    // The problems of the plan are small.
    if (!given_.timeout_seconds) given_.timeout_seconds = 10;
    location_.kernel = given.specimen.empty() ? given.kernel : given.kernel + "+" + given.specimen;
  }

  Location run() {
    const Tile tile = tile_of_module();
    combines_ = tile.combines;
    const std::vector<Probe> probes = plan(given_, tile.br, tile.bc, tile.combines);
    bool checked = false;
    for (const Probe& probe : probes) {
      if (!attempt(probe)) continue;
      const bool open = !is_sure() || in_shared_ || may_be_memory(location_.diagnosis->cause);
      if (open && !std::exchange(checked, true) && check(probe)) break;
      doubt_trace();
      if (is_sure() || probe.about == as_given) break;
    }
    if (location_.diagnosis) {
      add_dependence();
      if (location_.diagnosis->memory.empty()) confirm();
      return std::move(location_);
    }
    for (const Probe& probe : probes) {
      if (probe.checked && check(probe)) break;
    }
    return std::move(location_);
  }

 private:
  bool is_sure() const { return location_.diagnosis->certain && !location_.diagnosis->ambiguous; }

  struct Tile {
    int br, bc;
    bool combines;
  };
  Tile tile_of_module() const {
    RunOptions options = given_;
    if (!is_given(given_)) options.shape = "b=1,h=1,s=16,d=64";
    const PreparedRun run = prepare(options);
    return {run.module->br, run.module->bc, run.module->combines};
  }

  /// Runs a probe; true where it diverged and its diagnosis is the best so far.
  bool attempt(const Probe& probe) {
    Dump dump;
    try {
      const PreparedRun run = prepare(probe.options);
      dump = launch(*run.module, run.module_name, run.request);
    } catch (const UsageError&) {
      if (probe.about == as_given) throw;
      return false;  // the kernel is not built for such a problem
    }
    const DiffReport report = diff_against_reference(dump, given_.threads);
    location_.backend = dump.info.backend;
    const std::string text = options_text(probe.options, dump.info.problem);
    location_.runs.push_back({text, probe.about, report.match, false});
    if (report.match) return false;
    Diagnosis diagnosis = diagnose(dump, report);
    if (location_.diagnosis && !(diagnosis.certain && !diagnosis.ambiguous)) return false;
    location_.diagnosis = std::move(diagnosis);
    location_.options = text;
    failed_ = probe;
    const DumpSite* site = report.first ? dump.find_site(name_of(report.first->site)) : nullptr;
    outputs_right_ =
        std::all_of(report.sites.begin(), report.sites.end(), [](const SiteReport& site_report) {
          return site_report.stage != Stage::epilogue || site_report.failed == 0;
        });
    in_shared_ = site && site->site.space == Space::shared;
    return true;
  }

  /// Runs a probe under the memory checker, on sim; true where that finds the cause: it is one of
  /// what values show in the same site or behind it.
  bool check(const Probe& probe) {
    if (location_.kernel.ends_with(".so")) {
      if (location_.diagnosis) {
        location_.diagnosis->evidence.push_back(
            "a module given by its path does not run under the memory checker: give the kernel "
            "with -Dextra_kernels= to have races found");
      }
      return false;
    }
    RunOptions options = probe.options;
    options.backend = "sim";
    CheckReport report;
    try {
      report = check_kernel(options);
    } catch (const UsageError&) {
      if (probe.about == as_given) throw;
      return false;  // the kernel is not built for such a problem
    }
    const std::string text = options_text(probe.options, report.problem);
    location_.runs.push_back({text, probe.about + ", memory checker", report.clean(), true});
    if (report.clean()) return false;
    std::optional<SiteId> wrong;
    if (location_.diagnosis && location_.diagnosis->first) {
      wrong = location_.diagnosis->first->site;
    }
    Diagnosis memory = diagnose(report, wrong);
    if (!location_.diagnosis) {
      location_.diagnosis = std::move(memory);
      location_.options = text;
      return true;
    }
    Diagnosis& values = *location_.diagnosis;
    if (values.cause == Cause::crash) {
      values.evidence.push_back(std::string("under the memory checker: ") + name_of(memory.cause));
      for (const std::string& line : memory.evidence) values.evidence.push_back("  " + line);
      return false;
    }
    const bool upstream =
        !memory.first || !values.first || memory.first->site <= values.first->site;
    if (memory.cause == values.cause || !upstream) {
      values.evidence.push_back(std::string("the memory checker finds ") + name_of(memory.cause) +
                                ": " + memory.evidence.front());
      return false;
    }
    if (values.first) {
      const Divergence& at = *values.first;
      memory.evidence.push_back(
          std::string("so values differ from ") + name_of(at.stage) + " / " + name_of(at.site) +
          (at.tile < 0 ? "" : ", tile " + std::to_string(at.tile)) +
          ", on; by values alone: " + name_of(values.cause) + (is_sure() ? "" : " (not certain)"));
    }
    location_.diagnosis = std::move(memory);
    return true;
  }

  /// A loaded tile that looks unfinished, though nothing comes of it and the memory is in order,
  /// was traced before it was complete: the kernel may be right.
  void doubt_trace() {
    Diagnosis& values = *location_.diagnosis;
    const bool unfinished =
        values.cause == Cause::never_written || values.cause == Cause::stale_value;
    if (!unfinished || !values.first || values.first->stage != Stage::load || !outputs_right_) {
      return;
    }
    values.certain = false;
    values.evidence.push_back(std::string("the outputs are right and the memory checker finds ") +
                              "nothing: the trace point of " + name_of(values.first->site) +
                              " may come before the barrier that completes the tile");
  }

  /// What the runs say together: which of them are right.
  void add_dependence() {
    std::map<bool, std::vector<std::string>> about;
    for (const LocateRun& run : location_.runs) {
      if (!run.checked) about[run.match].push_back(run.about);
    }
    if (about[true].empty()) return;
    const auto listed = [](const std::vector<std::string>& names) {
      std::string text;
      for (const std::string& name : names) text += (text.empty() ? "" : "; ") + name;
      return text;
    };
    location_.diagnosis->evidence.push_back("right with: " + listed(about[true]) +
                                            " - wrong with: " + listed(about[false]));
  }

  /// Runs every gate, to see which of them crash or hang as well: the first of them has the stage.
  void find_stage_that_stops() {
    Diagnosis& diagnosis = *location_.diagnosis;
    bool found = false, all_match = true;
    for (const Gate gate : all_gates) {
      if (gate == Gate::fused) continue;
      RunOptions options = failed_.options;
      options.gate = name_of(gate);
      Dump dump;
      try {
        const PreparedRun run = prepare(options);
        dump = launch(*run.module, run.module_name, run.request);
      } catch (const UsageError&) {
        continue;  // this build, or this kernel, has no such gate
      }
      const DiffReport report = diff_against_reference(dump, given_.threads);
      location_.runs.push_back(
          {options_text(options, dump.info.problem), "the stage alone", report.match, false});
      if (dump.info.incomplete.empty()) {
        diagnosis.evidence.push_back(options.gate + " alone ends, and " +
                                     (report.match ? "matches" : "diverges"));
        all_match = all_match && report.match;
        continue;
      }
      const Diagnosis alone = diagnose(dump, report);
      diagnosis.evidence.push_back(options.gate + " alone does not end: " + alone.evidence[0]);
      if (!found && alone.first) diagnosis.first = alone.first;
      found = true;
    }
    if (!found && all_match) {
      diagnosis.evidence.push_back(
          "no stage alone does it: suspect what fused adds (loads, barriers, the epilogue)");
    }
  }

  /// Runs the gate of the stage alone.
  void confirm() {
    Diagnosis& diagnosis = *location_.diagnosis;
    const bool stopped = diagnosis.cause == Cause::crash || diagnosis.cause == Cause::hang;
    if (stopped && !location_.kernel.ends_with(".so")) return find_stage_that_stops();
    if (!diagnosis.first || location_.kernel.ends_with(".so")) return;
    const std::optional<Gate> gate = gate_of(*diagnosis.first);
    if (!gate) return;
    const DiffReport report = run_alone(*gate, "the stage alone");
    const std::string name = name_of(*gate);
    diagnosis.evidence.push_back(
        report.match ? name +
                           " alone matches: it fails only in fused, so suspect what "
                           "surrounds the stage (buffers, barriers, registers in use)"
        : report.first && report.first->stage == diagnosis.first->stage
            ? name + " alone diverges in the same stage: the fault is in the stage itself"
            : name + " alone diverges as well");
    if (!combines_ || *gate == Gate::combine_only) return;
    const bool match = run_alone(Gate::combine_only, "the combine pass alone").match;
    diagnosis.evidence.push_back(
        match ? "combine_only matches: given right partials, the combine pass is right"
              : "combine_only diverges as well: the combine pass has a fault of its own");
  }

  /// A gate by itself, on the problem that failed.
  DiffReport run_alone(Gate gate, const std::string& about) {
    RunOptions options = failed_.options;
    options.gate = name_of(gate);
    const PreparedRun run = prepare(options);
    const Dump dump = launch(*run.module, run.module_name, run.request);
    DiffReport report = diff_against_reference(dump, given_.threads);
    location_.runs.push_back({options_text(options, dump.info.problem), about, report.match});
    return report;
  }

  RunOptions given_;
  Location location_;
  Probe failed_;
  bool combines_ = false;  ///< the kernel has a combine pass
  bool outputs_right_ = false;
  bool in_shared_ = false;  ///< where values differ: whoever reads it may read it too early
};

}  // namespace

Location locate(const RunOptions& given) { return Search(given).run(); }

}  // namespace lanescope

#include "gates/locate.h"

#include <algorithm>
#include <map>

#include "debug/commands.h"
#include "debug/error.h"
#include "gates/gate.h"
#include "gates/presets.h"

namespace lanescope {
namespace {

/// A problem that shows a class of faults.
struct Probe {
  std::string about;
  RunOptions options;
};

bool is_given(const RunOptions& options) {
  return !options.shape.empty() || !options.preset.empty() || options.causal ||
         options.input != "random" || options.seed != 0;
}

std::string length_text(std::int64_t queries, std::int64_t keys) {
  return "s=" + std::to_string(queries) + (queries == keys ? "" : ",skv=" + std::to_string(keys));
}

/// The problems of the plan, cheapest first, for tiles of br queries and bc keys.
std::vector<Probe> plan(const RunOptions& given, int br, int bc, bool combines) {
  std::vector<Probe> probes;
  if (is_given(given)) probes.push_back({"as given", given});
  const std::string d =
      "," + ("d=" + std::to_string(given.input.ends_with(".safetensors")
                                       ? 64
                                       : parse_shape(given.preset, given.shape, false).d));
  const auto add = [&](const std::string& about, const std::string& shape, bool causal,
                       const std::string& input = "random") {
    RunOptions options = given;
    options.preset.clear();
    options.shape = (shape.starts_with("b=") || shape.starts_with("h=") ? "" : "b=1,h=1,") + shape +
                    (given.shape.empty() && given.preset.empty() ? ",d=64" : d);
    options.causal = causal;
    options.input = input;
    options.seed = given.seed;
    probes.push_back({about, options});
  };
  const int side = std::max(br, bc);
  add("a single tile", length_text(br, bc), false);
  add("several tiles", length_text(br, 3 * bc), false);
  add("the maximum rises in every tile", length_text(br, 3 * bc), false, "rising");
  add("a ragged tail", length_text(side + br / 2 + 4, side + bc / 2 + 5), false);
  add("causal", length_text(side, side), true);
  add("causal, ragged, several tiles", length_text(2 * side + 1, 2 * side + 1), true);
  add("causal, fewer queries than keys", length_text(br / 2 + 8, side + 32), true);
  add("causal, rows that see no key", length_text(side + 32, side), true);
  add("several heads, grouped", "b=2,h=4,hkv=2," + length_text(br, 2 * bc), false);
  add("large scores", length_text(br, 2 * bc), false, "large");
  add("as many tiles as rings of buffers may hold", length_text(br, 6 * bc), false);
  if (combines) {
    const auto add_splits = [&](const std::string& about, const std::string& shape, bool causal,
                                std::int64_t splits) {
      add(about, shape, causal);
      if (!given.splits) probes.back().options.splits = splits;
    };
    add_splits("several splits", length_text(br, 6 * bc), false, 3);
    add_splits("more splits than tiles", length_text(br, 2 * bc), false, 4);
    add_splits("causal, splits that some rows do not see", length_text(2 * side, 2 * side + br / 2),
               true, 3);
    add_splits("heads that share tiles", "h=4,hkv=1," + length_text(3, 4 * bc), true, 2);
  }
  add("a padded head dimension", length_text(br, 2 * bc), false);
  probes.back().options.shape = "b=1,h=1," + length_text(br, 2 * bc) + ",d=40";
  return probes;
}

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
    for (const Probe& probe : plan(given_, tile.br, tile.bc, tile.combines)) {
      if (!attempt(probe)) continue;
      const bool sure = location_.diagnosis->certain && !location_.diagnosis->ambiguous;
      if (sure || probe.about == "as given") break;
    }
    // The memory checker's findings (races, uninitialised reads) enter here: between the plan,
    // which says where values differ, and the gate, which says whether the stage alone is to blame.
    if (location_.diagnosis) {
      add_dependence();
      confirm();
    }
    return std::move(location_);
  }

 private:
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
      if (probe.about == "as given") throw;
      return false;  // the kernel is not built for such a problem
    }
    const DiffReport report = diff_against_reference(dump, given_.threads);
    location_.backend = dump.info.backend;
    const std::string text = options_text(probe.options, dump.info.problem);
    location_.runs.push_back({text, probe.about, report.match});
    if (report.match) return false;
    Diagnosis diagnosis = diagnose(dump, report);
    if (location_.diagnosis && !(diagnosis.certain && !diagnosis.ambiguous)) return false;
    location_.diagnosis = std::move(diagnosis);
    location_.options = text;
    failed_ = probe;
    return true;
  }

  /// What the runs say together: which of them are right.
  void add_dependence() {
    std::map<bool, std::vector<std::string>> about;
    for (const LocateRun& run : location_.runs) about[run.match].push_back(run.about);
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
    bool found = false;
    for (const Gate gate : {Gate::qk_only, Gate::softmax_only, Gate::pv_only}) {
      RunOptions options = failed_.options;
      options.gate = name_of(gate);
      Dump dump;
      try {
        const PreparedRun run = prepare(options);
        dump = launch(*run.module, run.module_name, run.request);
      } catch (const UsageError&) {
        continue;  // this build has no such gate
      }
      const DiffReport report = diff_against_reference(dump, given_.threads);
      location_.runs.push_back(
          {options_text(options, dump.info.problem), "the stage alone", report.match});
      if (dump.info.incomplete.empty()) {
        diagnosis.evidence.push_back(options.gate + " alone ends");
        continue;
      }
      const Diagnosis alone = diagnose(dump, report);
      diagnosis.evidence.push_back(options.gate + " alone does not end: " + alone.evidence[0]);
      if (!found && alone.first) diagnosis.first = alone.first;
      found = true;
    }
    if (!found) {
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
};

}  // namespace

Location locate(const RunOptions& given) { return Search(given).run(); }

}  // namespace lanescope

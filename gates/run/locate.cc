#include "gates/run/locate.h"

#include <algorithm>
#include <utility>

#include "debug/text/progress.h"
#include "gates/build/module_build.h"
#include "gates/run/accessing_lines.h"
#include "gates/run/checks_ahead.h"
#include "gates/run/launched_grids.h"
#include "gates/run/locate_far.h"
#include "gates/run/locate_memory.h"
#include "gates/run/locate_plan.h"
#include "gates/run/memory_beside_values.h"
#include "gates/run/partition.h"
#include "gates/run/plan_modules.h"
#include "gates/run/presets.h"
#include "gates/run/probe_runs.h"
#include "gates/run/source_place.h"
#include "gates/run/taken_runs.h"
#include "gates/run/tell_fault.h"
#include "reference/error.h"

namespace lanescope {
namespace {

class Search {
 public:
  explicit Search(const RunOptions& given) : given_(given) {
    given_.gate = name_of(Gate::fused);
    if (!given_.timeout_seconds) given_.timeout_seconds = locate_timeout_seconds;
    location_.kernel = given.specimen.empty() ? given.kernel : given.kernel + "+" + given.specimen;
  }

  Location run() {
    const Tile tile = tile_of_module();
    combines_ = tile.combines;
    std::vector<Probe> probes =
        plan(given_, tile.br, tile.bc, tile.head_dim, tile.combines, tile.resident_blocks);
    const auto to_check = std::count_if(probes.begin(), probes.end(),
                                        [](const Probe& probe) { return probe.checked; });
    const auto problems = std::ssize(probes) + to_check;
    Progress progress("locating", problems, "problems");
    const auto count = [&] { progress.at(std::ssize(location_.runs), problems); };
    unchecked_ = probes.data();
    if (try_probes(probes, count)) {
      tell_.how_it_is_put_together(probes, {});
      if (!is_module_path(given_.kernel)) place_race(runs_.kernel(), *location_.diagnosis);
      return std::move(location_);
    }
    if (!location_.diagnosis) taken_.settle_variant();
    // What values leave open, or an end without a cause, the checker may see where they are right.
    const bool finds_nothing =
        std::all_of(location_.runs.begin(), location_.runs.end(),
                    [](const LocateRun& r) { return !r.checked || r.match; });
    const bool is_open =
        location_.diagnosis && (!is_sure() || ended_without_cause(*location_.diagnosis));
    if (is_open && (finds_nothing || may_end_by_other_wait(*location_.diagnosis))) {
      check_up_to(probes.data() + probes.size(), count);
    }
    if (location_.diagnosis) {
      tell_.fault(probes, combines_);
      return std::move(location_);
    }
    check_up_to(probes.data() + probes.size(), count);
    if (fails_on_machine(probes)) {
      tell_.fault(probes, combines_);
      return std::move(location_);
    }
    // What the memory checker alone has run says nothing of values.
    if (!location_.diagnosis && std::ranges::all_of(location_.runs, &LocateRun::checked)) {
      throw UsageError("locate: nothing could be run: " + runs_.refusals());
    }
    if (!location_.diagnosis) taken_.take_truncation();
    if (!location_.diagnosis) tell_what_is_open(probes, tile);
    return std::move(location_);
  }

 private:
  bool is_sure() const { return location_.diagnosis->sure(); }
  /// What nobody wrote is any number on a GPU, and outputs that come of it may be those of a flaw.
  bool may_be_unwritten() const {
    return location_.backend == "cuda" && is_module_path(given_.kernel) &&
           !location_.diagnosis->flaws.empty();
  }
  /// Sure, and of a kernel that shows its outputs alone by several runs.
  bool is_told() const { return is_sure() && (taken_.suffice() || location_.diagnosis->by_end); }

  struct Tile {
    int br, bc, head_dim;
    bool combines;
    int resident_blocks;
  };
  Tile tile_of_module() const {
    RunOptions options = given_;
    // Of a kernel's modules, those of d = 64 are run most; one that is given is run as wide as it
    // is.
    if (!is_given(given_) && !is_module_path(given_.kernel)) options.shape = "b=1,h=1,s=16,d=64";
    const PreparedRun run = prepare(options);
    if (!run.trace_note.empty())
      throw UsageError("locate: it needs the traced values. " + run.trace_note);
    partition_of(*run.module, run.request.problem, given_.splits);  // throws where it has none
    return {run.module->br, run.module->bc, run.module->head_dim, run.module->combines,
            run.module->resident_blocks};
  }

  bool is_right() const { return !location_.diagnosis && !location_.recurrence; }

  /// Runs the probes until there is a cause that is sure. True where the memory checker
  /// alone found it.
  template <class Count>
  bool try_probes(std::vector<Probe>& probes, Count count) {
    for (Probe& probe : probes) {
      count();
      // They tell no more than small problems do: one row less, others take longer.
      if (probe.large && location_.diagnosis) continue;
      // What the memory checker finds in small problems needs no large one.
      if (probe.large && is_right() && check_up_to(&probe, count)) return true;
      build_ahead(probes, probe);
      const std::optional<ProbeRun> run = runs_.run_nearest(probe);
      const bool best = run && taken_.take(*run, probe);
      if (run && is_right() && needs_check(probe)) ahead_.add(probe);
      // What the checker does not find in one run that fails, it may in another.
      if (best || (run && taken_.last_failed() && probe.checked)) {
        const bool open = !is_sure() || taken_.differs_in_shared() || location_.diagnosis->by_end ||
                          row_of(location_.diagnosis->cause).may_be_memory ||
                          may_be_of_nothing(*location_.diagnosis);
        if ((open || may_be_unwritten()) && check_memory(probe, location_)) return false;
      }
      if (best) {
        const LocateRun& last = location_.runs.back();
        judge_unfinished_tile(
            {taken_.outputs_are_right(), taken_.lanes_skip(), last.checked && last.match},
            *location_.diagnosis);
      }
      // What one problem leaves open, others may tell of a kernel that shows its values.
      const bool is_all = probe.about == as_given && !taken_.is_traced();
      if (location_.diagnosis && (is_told() || is_all)) return false;
    }
    return false;
  }

  /// Where nothing was found: what lies far in large tensors, and what was not run.
  void tell_what_is_open(const std::vector<Probe>& probes, const Tile& tile) {
    if (!is_given(given_)) check_far_head(given_, location_);
    if (location_.diagnosis || is_module_path(given_.kernel)) return;
    for (std::string& what : not_tried(given_, probes, tile.br, tile.bc)) {
      location_.not_tried.push_back(std::move(what));
    }
  }

  /// The memory checker on those problems before `end` that it has not had; true where it finds
  /// something.
  template <class Count>
  bool check_up_to(const Probe* end, Count count) {
    while (unchecked_ != end) {
      const Probe& probe = *unchecked_++;
      count();
      if (!needs_check(probe)) continue;
      const bool clean = is_right() && ahead_.is_clean(probe);
      if (clean) note_clean(probe, location_);
      if (clean || !check_memory(probe, location_)) continue;
      location_.source = accessing_lines(*location_.diagnosis);
      return true;
    }
    return false;
  }

  /// Where a GPU finds all right, whether values are wrong on the SIMT machine: what nobody wrote
  /// is NaN there, and on a GPU what was there before.
  bool fails_on_machine(std::vector<Probe>& probes) {
    if (location_.diagnosis || location_.backend != "cuda" || !is_module_path(given_.kernel)) {
      return false;
    }
    given_.backend = "sim";
    for (Probe& probe : probes) probe.options.backend = "sim";
    for (const Probe& probe : probes) {
      if (!probe.checked || probe.large) continue;
      const std::optional<ProbeRun> run = runs_.run(probe);
      if (!run || !taken_.take(*run, probe)) continue;
      location_.diagnosis->evidence.emplace_back(
          "right on the GPU and wrong on the SIMT machine, where what nobody wrote is NaN");
      return true;
    }
    location_.backend = "cuda";
    return false;
  }

  /// Blocks with one item each, the checker has had in smaller problems.
  bool needs_check(const Probe& probe) const {
    if (!probe.checked || was_checked(probe)) return false;
    if (!probe.by_turns) return true;
    RunOptions options = probe.options;
    options.backend = "sim";
    try {
      return !has_block_per_item(options);
    } catch (const Error&) {
      return true;
    }
  }

  bool was_checked(const Probe& probe) const {
    return std::any_of(location_.runs.begin(), location_.runs.end(), [&](const LocateRun& run) {
      return run.checked && run.about == probe.about + ", memory checker";
    });
  }

  /// What the first module runs was right: all that other probes need is built at once.
  void build_ahead(const std::vector<Probe>& probes, const Probe& next) {
    if (built_ahead_ || location_.diagnosis || is_module_path(given_.kernel)) return;
    const std::vector<std::string> first = modules_of({probes.front()}), own = modules_of({next});
    if (first.empty() || own.empty() || own.front() == first.front()) return;
    built_ahead_ = true;
    try {
      build_modules(modules_of(probes));
    } catch (const Error&) {
      return;  // which of them it is, the probe says
    }
  }

  RunOptions given_;
  Location location_;
  ProbeRuns runs_{given_.threads, location_};
  TakenRuns taken_{runs_, given_.strict, location_};
  TellFault tell_{given_, runs_, taken_, location_};
  ChecksAhead ahead_{given_.threads};
  const Probe* unchecked_ = nullptr;  ///< the first one that the memory checker has not had
  bool combines_ = false;             ///< the kernel has a combine pass
  bool built_ahead_ = false;
};

/// A kernel with markers may be refused because they are wrong, or because it is itself: what shows
/// of it without them.
std::optional<Location> locate_without_markers(const RunOptions& given, const char* refusal) {
  if (given.untraced || !is_module_path(given.kernel)) return std::nullopt;
  RunOptions options = given;
  options.untraced = true;
  try {
    Location found = Search(options).run();
    if (!found.diagnosis) return std::nullopt;
    found.diagnosis->evidence.push_back(std::string("without its markers, since ") + refusal);
    return found;
  } catch (const UsageError&) {
    return std::nullopt;  // what was refused at first says more
  }
}

}  // namespace

Location locate(const RunOptions& given) {
  try {
    return Search(given).run();
  } catch (const UsageError& refusal) {
    if (auto found = locate_without_markers(given, refusal.what())) return std::move(*found);
    throw;
  }
}

}  // namespace lanescope

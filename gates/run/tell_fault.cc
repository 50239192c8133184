#include "gates/run/tell_fault.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "debug/causes/cause_families.h"
#include "gates/build/module_build.h"
#include "gates/process/machine_runtime.h"
#include "gates/run/accessing_lines.h"
#include "gates/run/first_nan.h"
#include "gates/run/lane_order.h"
#include "gates/run/locate_dependence.h"
#include "gates/run/locate_memory.h"
#include "gates/run/locate_stage.h"
#include "gates/run/locate_terms.h"
#include "gates/run/memory_beside_values.h"
#include "gates/run/source_place.h"
#include "gates/run/telling_problems.h"
#include "gates/run/warned_index.h"

namespace lanescope {
namespace {

/// Each further run of a problem in which it does may take as long.
bool hangs(const Diagnosis& diagnosis) { return diagnosis.cause == Cause::hang; }

}  // namespace

bool may_be_of_nothing(const Diagnosis& diagnosis) {
  const bool of_splits = diagnosis.first && diagnosis.first->stage == Stage::combine &&
                         !std::isfinite(diagnosis.first->got);
  return of_splits || diagnosis.cause == Cause::divided_by_zero;
}

bool ended_without_cause(const Diagnosis& diagnosis) {
  return diagnosis.by_end && diagnosis.memory.empty() &&
         (diagnosis.cause == Cause::crash || diagnosis.cause == Cause::hang);
}

bool may_end_by_other_wait(const Diagnosis& diagnosis) {
  return diagnosis.by_end && diagnosis.memory.empty() && !diagnosis.certain;
}

void TellFault::fault(const std::vector<Probe>& probes, bool combines) {
  Diagnosis& diagnosis = *location_.diagnosis;
  taken_.take_what_explains_most();
  const RunOptions& failed = taken_.failed();
  const bool by_flaw = !diagnosis.flaws.empty() && diagnosis.memory.empty() &&
                       taken_.rivals().settle(probes, location_);
  if (!is_sure()) diagnosis.certain = false;
  if (!by_flaw) taken_.failed_runs().doubt(diagnosis);
  ask_checker_after_all(failed);
  tell_unwritten_read(location_);
  tell_hidden_race(location_);
  tell_gpu_alone(failed, location_);
  tell_origin(failed, location_);
  if (!diagnosis.certain && is_module_path(given_.kernel)) check_order(failed, location_);
  tell_low_scores(runs_.traits(), taken_.is_traced(), diagnosis);
  if (taken_.outputs_are_right()) say_that_outputs_are_right();
  const SeenWays seen = diagnosis.memory.empty() && !hangs(diagnosis)
                            ? tell_numbers(taken_.failed_runs().options(failed), location_)
                            : SeenWays{};
  how_it_is_put_together(probes, seen);
  add_dependence(runs_.traits(), location_);
  if (diagnosis.memory.empty()) {
    confirm_stage(failed, combines, location_);
    if (is_sure()) look_for_others(failed, probes, location_);
  }
  if (!is_module_path(given_.kernel)) place_race(runs_.kernel(), diagnosis);
  find_source();
  location_.warnings = warnings_of_module(runs_.module_name());
  take_warned_index(location_);
}

void TellFault::find_source() {
  const Diagnosis& diagnosis = *location_.diagnosis;
  const auto& first = diagnosis.first;
  if (first && location_.source.empty()) {
    if (runs_.marked_ptx().empty()) {
      // Scores are masked, and tiles of them left out, in functions of their own.
      const bool of_mask = is_mask(diagnosis.cause) || diagnosis.cause == Cause::tile_skipped;
      if (of_mask) location_.source = mask_places(runs_.kernel());
      std::ranges::copy(source_places(runs_.kernel(), first->stage, first->site),
                        std::back_inserter(location_.source));
    } else if (diagnosis.memory.empty()) {
      location_.source =
          marked_lines(build_machine_runtime(), runs_.marked_ptx().c_str(), first->site);
    }
  }
  if (location_.source.empty()) location_.source = accessing_lines(diagnosis);
}

/// What values leave open, though they seemed sure at first, the memory checker may know.
void TellFault::ask_checker_after_all(const RunOptions& failed) {
  const Diagnosis& diagnosis = *location_.diagnosis;
  const bool was_asked = std::ranges::any_of(location_.runs, &LocateRun::checked);
  if (is_sure() || was_asked || diagnosis.by_end || !diagnosis.memory.empty()) return;
  Probe probe;
  probe.options = failed;
  probe.about = "what fails";
  check_memory(probe, location_);
}

void TellFault::how_it_is_put_together(const std::vector<Probe>& probes, const SeenWays& seen) {
  if (taken_.is_traced() || !is_module_path(given_.kernel)) return;
  const RunOptions& failed = taken_.failed();
  std::vector<RunOptions> wrong;
  if (!location_.diagnosis || !hangs(*location_.diagnosis)) {
    wrong = wrong_problems(given_, failed, taken_.failed_runs().options(failed), probes, location_);
  }
  tell_terms(wrong, right_problems(probes, location_), seen, location_);
}

/// No run has wrong outputs.
void TellFault::say_that_outputs_are_right() {
  const auto& first = location_.diagnosis->first;
  if (!first || first->stage == Stage::load) return;
  location_.diagnosis->evidence.push_back(
      "the outputs are right in all " + std::to_string(runs_.traits().size()) +
      " runs: a recurrence that is not known, or a fault that these inputs do not show");
}

}  // namespace lanescope

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "debug/causes/diagnose.h"
#include "debug/text/text.h"

namespace lanescope {

/// One run of `locate` and how it fared.
struct LocateRun {
  std::string options;   ///< what runs it again: "KERNEL GATE --shape ... --input ..."
  std::string about;     ///< which class of faults it shows
  bool match = false;    ///< with the reference; of a run under the memory checker: nothing found
  bool checked = false;  ///< under the memory checker
  bool variant = false;  ///< outputs are right, of another recurrence than the reference's
  bool limit = false;    ///< beyond what the kernel is made for, see Location::limits
};

/// What `locate` found.
struct Location {
  std::string kernel, backend;
  std::vector<LocateRun> runs;           ///< in the order in which they were made
  std::vector<std::string> not_tried;    ///< what the runs say nothing of, and why
  std::vector<std::string> limits;       ///< of the kernel as a whole, which are no fault
  std::optional<Recurrence> recurrence;  ///< where outputs are right though it is another one
  std::optional<Diagnosis> diagnosis;    ///< where it is not clean
  /// A read of what nobody wrote, which values seemed to explain.
  std::optional<Diagnosis> unwritten_read;
  std::optional<Diagnosis> hidden_race;  ///< of lanes that ran in step, though values are wrong
  /// A read that a copy may overtake on a GPU, though nothing is wrong on the SIMT machine.
  std::optional<CheckReport::Item> unfenced_read;
  std::vector<std::string> first_nan;  ///< where the kernel made it, as the memory checker saw
  simt::NanOrigin nan;                 ///< what it made it of
  std::vector<Diagnosis> others;       ///< faults of other stages that do not follow from it
  std::vector<std::string> source;     ///< where the kernel's source makes the wrong value
  std::vector<std::string> warnings;   ///< of the compiler, about the kernel's source
  std::string options;                 ///< of the run that was diagnosed
  std::optional<Problem> unexplained;  ///< one in which the cause does not explain all
  bool too_large = false;              ///< no machine has room for a dump of it
  std::vector<SiteId> shown;           ///< sites that a dump of it has
};

/// For people: what was run, where the fault is, why, what else it may be, how to look at it; the
/// verdict is the last line.
std::string location_text(const Location& location, const Style& style);

/// For programs, one JSON object: {kernel, backend, verdict: "clean", "variant" (right outputs of
/// another recurrence) or "fault", recurrence: [how it differs], not_tried: [string], limits:
/// [string], stage, site, tile, block, warp, lane, reg, row, col, cause, explanation, certain,
/// stage_certain, evidence: [string], suspects: [{cause, explained, evidence}], source: [string],
/// warnings: [string], memory: [what `check` reports], options, runs: [{options, about, match,
/// checked, variant, limit}], others: [{stage, site, tile, block, cause, certain, evidence}]}; what
/// does not apply is null.
std::string location_json(const Location& location);

}  // namespace lanescope

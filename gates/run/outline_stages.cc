#include "gates/run/outline_stages.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lanescope {
namespace {

/// The file's name and the number of a line; of a function that is inlined, those of the outermost
/// call: others call it, too.
std::optional<std::pair<std::string, int>> place_in_kernel(const std::string& line) {
  const std::string called = ", called at ";
  const std::size_t calls = line.find(called);
  std::string place = calls == line.npos ? line : line.substr(calls + called.size());
  if (calls != line.npos && place.rfind(", ") != place.npos) {
    place = place.substr(place.rfind(", ") + 2);
  }
  const std::size_t colon = place.find(':');
  const std::size_t folder = place.rfind('/', colon);
  return place_in_source(folder == place.npos ? place : place.substr(folder + 1));
}

/// Whether a line puts parts of rows together, is one of those around that do nothing else, or
/// stands between the two.
bool is_of_merge(const std::string& line, const Provenance::Merges& merges) {
  constexpr int near = 16;
  const auto own = place_in_kernel(line);
  if (!own) return false;
  int before = 0, behind = 0;  // of the lines around, and of those of the merge
  for (const std::string& other : merges.around) {
    const auto at = place_in_kernel(other);
    if (at == own) return true;
    if (at && at->first == own->first && at->second < own->second) {
      before = std::max(before, at->second);
    }
  }
  for (const std::string& merge : merges.lines) {
    const auto at = place_in_kernel(merge);
    if (at == own) return true;
    if (at && at->first == own->first && at->second > own->second) {
      behind = behind == 0 ? at->second : std::min(behind, at->second);
    }
  }
  return before > 0 && behind > 0 && behind - before <= near;
}

/// An access that the kernel's code says no stage of is of the one that takes what it reads.
void place_access(const Provenance::Outline& outline, Diagnosis& diagnosis) {
  const auto known = outline.reads.find(diagnosis.memory.front().access_line);
  if (known != outline.reads.end()) set_stage(known->second, diagnosis);
}

/// What nobody wrote of an array is left out by the stage that fills it, which need not be load.
void place_unwritten(const Provenance::SharedMemory& shared, Diagnosis& diagnosis) {
  if (!reads_unwritten_shared(diagnosis) || diagnosis.left_out_by_lanes) return;
  const CheckReport::Item& item = diagnosis.memory.front();
  const std::optional<Stage> reader = stage_named_in(item.access_line);
  const auto& [no_q, no_k, no_v] = shared.lacks_columns;
  if (reader == Stage::qk ? no_q || no_k : reader == Stage::pv && no_v) {
    set_stage(Stage::load, diagnosis);
    diagnosis.evidence.emplace_back("columns of the tile are put there in no row");
    return;
  }
  if (item.stage && item.stage != Stage::load) return;
  // Where all tiles are filled that a product takes, it reads beside them.
  const auto& [q, k, v] = shared.is_whole;
  if (reader == Stage::qk ? q && k : reader == Stage::pv && v) {
    set_stage(*reader, diagnosis);
    diagnosis.cause = Cause::wrong_source;
    diagnosis.evidence.push_back(std::string("the tiles that ") + name_of(*reader) +
                                 " takes are filled without a gap: it reads beside them");
    return;
  }
  if (const auto stage = shared.stage_around(item.finding.offset)) set_stage(*stage, diagnosis);
}

}  // namespace

bool makes_infinity(Cause cause) {
  return cause == Cause::overflow || cause == Cause::masked_row_unguarded ||
         cause == Cause::divided_by_zero;
}

bool is_behind_scores(std::optional<Stage> stage) {
  return stage && *stage >= Stage::softmax && *stage < Stage::combine;
}

bool reads_unwritten_shared(const Diagnosis& diagnosis) {
  return diagnosis.cause == Cause::uninitialised_read && !diagnosis.memory.empty() &&
         diagnosis.memory.front().finding.region == simt::shared_region;
}

bool is_of_unwritten_parts(const TermFault& fault, const Diagnosis& diagnosis) {
  const bool reads_parts = diagnosis.cause == Cause::uninitialised_read &&
                           !reads_unwritten_shared(diagnosis) &&
                           diagnosis.stage() == Stage::combine;
  return reads_parts && !fault.lines.empty() &&
         std::ranges::any_of(diagnosis.memory, [&](const CheckReport::Item& item) {
           return place_in_source(item.used_line) == place_in_source(fault.lines.front());
         });
}

void set_stage(Stage stage, Diagnosis& diagnosis) {
  if (diagnosis.first) diagnosis.first->stage = stage;
  if (!diagnosis.memory.empty()) diagnosis.memory.front().stage = stage;
}

void place_by_outline(const Provenance::Outline& outline, Location& location) {
  Diagnosis& diagnosis = *location.diagnosis;
  const bool is_access = !diagnosis.memory.empty();
  if (is_access && !diagnosis.stage()) place_access(outline, diagnosis);
  const bool merges =
      is_access ? is_of_merge(diagnosis.memory.front().access_line, outline.merges)
                : makes_infinity(diagnosis.cause) && is_of_merge(location.nan.line, outline.merges);
  if (!merges) return place_unwritten(outline.shared, diagnosis);
  const bool of_writer = is_access && is_left_out(diagnosis.memory.front());
  set_stage(of_writer ? Stage::epilogue : Stage::combine, diagnosis);
  if (!of_writer) return;
  diagnosis.stage_certain = false;
  diagnosis.evidence.push_back(
      "all that was stored there is read: who stores it leaves this out, or stores it in another's "
      "place");
}

void place_by_outline(const Provenance::Outline& outline, TermFault& fault) {
  if (fault.loses_weights && !outline.merges.empty()) fault.stage = Stage::combine;
  const bool in_merge = !fault.lines.empty() && is_of_merge(fault.lines.front(), outline.merges);
  // Parts that have the same keys are nothing that a merge could know.
  const bool overlaps = fault.cause == Cause::contribution_repeated && !fault.of_nothing;
  if (in_merge && overlaps && fault.stage == Stage::softmax) fault.stage = Stage::qk;
  // Where nothing is merged, it stands for what was summed up before.
  if (fault.of_nothing && !in_merge) fault.cause = Cause::wrong_formula;
  if (in_merge && is_behind_scores(fault.stage) && !overlaps) {
    fault.stage = Stage::combine;
    // Parts have no lanes to be reduced over: those of other rows come of their index.
    const bool of_other_rows =
        fault.cause == Cause::reduction_too_wide || fault.cause == Cause::accumulator_not_cleared;
    if (of_other_rows) fault.cause = Cause::operand_of_other_row;
  }
  // What a merge takes may have been rounded on its way there.
  const bool is_rounding = fault.stage == Stage::combine && fault.cause == Cause::precision_lost;
  if (!is_rounding || outline.roundings.empty()) return;
  fault.stage = Stage::pv;
  fault.lines = outline.roundings;
  fault.evidence.push_back(fault.lines.front() + ": P·V is rounded to fewer bits");
}

}  // namespace lanescope

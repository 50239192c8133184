#include "gates/run/weigh_terms.h"

#include <string>
#include <utility>

#include "gates/run/outline_stages.h"
#include "gates/run/term_contest.h"

namespace lanescope {

void weigh_terms(const TermJudgement& judged, const SeenWays& seen, const TermsElsewhere& elsewhere,
                 Location& location) {
  Diagnosis& diagnosis = *location.diagnosis;
  Provenance::Outline outline = judged.outline;
  const std::optional<Stage> stage = diagnosis.stage();
  const bool of_others = judged.fault && judged.fault->cause == Cause::operand_of_other_row &&
                         is_behind_scores(judged.fault->stage);
  const bool may_be_merge = (stage ? is_behind_scores(stage) : !diagnosis.memory.empty()) ||
                            of_others || (judged.fault && judged.fault->loses_weights);
  // Splits may be the keys of lanes, whose sums and maxima are a row's reductions.
  const bool may_be_lanes = stage == Stage::combine && diagnosis.memory.empty() && !seen.combines;
  const bool lacks_merges = outline.merges.empty() && (may_be_merge || may_be_lanes);
  if (lacks_merges || (outline.shared.stored.empty() && reads_unwritten_shared(diagnosis))) {
    Provenance::Outline other = elsewhere.outline();
    if (lacks_merges) outline.merges = std::move(other.merges);
    if (outline.shared.stored.empty()) outline.shared = std::move(other.shared);
    if (outline.reads.empty()) outline.reads = std::move(other.reads);
  }
  place_by_outline(outline, location);
  if (may_be_lanes && outline.merges.empty() && !outline.empty()) {
    set_stage(Stage::softmax, diagnosis);
  }
  if (judged.is_whole) {
    diagnosis.evidence.push_back(
        "O and the log-sum-exps are put together of the right scores, weights and values: numbers "
        "are wrong, not which");
  }
  // Weights that vanish where parts are put together, and not before.
  const bool vanishes_behind = judged.weighs && !outline.merges.empty() &&
                               diagnosis.memory.empty() && !named_flaw(diagnosis) &&
                               diagnosis.cause == Cause::wrong_formula && stage == Stage::softmax;
  if (vanishes_behind) set_stage(Stage::combine, diagnosis);
  // Who merges stores the outputs.
  if (!outline.merges.empty() && diagnosis.cause == Cause::never_written &&
      diagnosis.memory.empty() && stage && *stage > Stage::qk) {
    set_stage(Stage::combine, diagnosis);
  }
  if (!judged.fault) return;
  TermFault fault = *judged.fault;
  place_by_outline(outline, fault);
  // Rows that nobody read are taken for others as tiles are filled.
  if (seen.lacks_rows && fault.stage > Stage::load && are_alike(fault.cause, Cause::permuted)) {
    fault.stage = Stage::load;
  }
  // Weights that were made are lost where another block should have put parts together.
  const bool loses_parts = fault.loses_weights && seen.combines && outline.merges.empty();
  if (loses_parts) fault.stage = Stage::combine;
  // A merge makes no scores.
  if (fault.stage <= Stage::qk && is_of_unwritten_parts(fault, diagnosis)) return;
  for (const std::string& line : fault.evidence) diagnosis.evidence.push_back(line);
  contest_terms(fault, judged.is_whole, seen, elsewhere, location);
}

}  // namespace lanescope

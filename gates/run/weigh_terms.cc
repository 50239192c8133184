#include "gates/run/weigh_terms.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>

#include "debug/causes/known_flaws.h"

namespace lanescope {
namespace {

/// Accesses that come of a row or tile that is taken for another: what they are is not why.
bool may_come_of_terms(Cause cause) {
  return cause == Cause::uninitialised_read || cause == Cause::out_of_bounds ||
         cause == Cause::uninitialised_register;
}

/// Where numbers that are not finite were made first, and why, is known.
bool makes_infinity(Cause cause) {
  return cause == Cause::overflow || cause == Cause::masked_row_unguarded ||
         cause == Cause::divided_by_zero;
}

/// A race of one statement with itself: what two lanes store at the same place, they may have to
/// store at different ones.
bool writes_over_itself(const Diagnosis& diagnosis) {
  const CheckReport::Item& item = diagnosis.memory.front();
  return diagnosis.cause == Cause::race && !item.access_line.empty() &&
         item.access_line == item.earlier_line;
}

/// A race of two stores: what is stored at the place of others meets those.
bool writes_over_others(const Diagnosis& diagnosis) {
  const simt::Finding& finding = diagnosis.memory.front().finding;
  return diagnosis.cause == Cause::race && finding.access.write && finding.earlier.write;
}

/// Whether the cause is that of a known flaw that gives the outputs; of two at once.
bool is_flaw(const Diagnosis& diagnosis) {
  return std::ranges::find(diagnosis.flaws, diagnosis.cause, &Finding::cause) !=
         diagnosis.flaws.end();
}
bool is_composed(const Diagnosis& diagnosis) {
  const auto named = std::ranges::find(diagnosis.flaws, diagnosis.cause, &Finding::cause);
  return named != diagnosis.flaws.end() && named->flaw.find(besides) != std::string::npos;
}

/// Names for what wrong keys, or pairs in the wrong order, come of: the outputs tell which better
/// than the terms.
constexpr Cause masks[] = {Cause::mask_off_by_one,   Cause::causal_mask_missing,
                           Cause::tail_mask_missing, Cause::mask_misaligned,
                           Cause::sliding_window,    Cause::mask_value,
                           Cause::mask_wrong};
bool is_mask(Cause cause) { return std::ranges::find(masks, cause) != std::end(masks); }
bool are_alike(Cause a, Cause b) {
  static constexpr Cause orders[] = {Cause::permuted,      Cause::operand_of_other_row,
                                     Cause::transposed,    Cause::wrong_stride,
                                     Cause::stale_operand, Cause::wrong_source};
  const auto both_in = [&](const auto& causes) {
    return std::ranges::find(causes, a) != std::end(causes) &&
           std::ranges::find(causes, b) != std::end(causes);
  };
  const bool of_keys = is_mask(a) && (is_mask(b) || b == Cause::contribution_repeated);
  return of_keys || both_in(orders);
}

/// The file and the number of "x.cu:17", and what stands behind it.
std::optional<std::pair<std::string, int>> place_of(const std::string& line) {
  const std::size_t at = line.find(':');
  if (at == line.npos || at + 1 == line.size() || !std::isdigit(line[at + 1])) return std::nullopt;
  return std::pair(line.substr(0, at), std::atoi(line.c_str() + at + 1));
}

/// Whether a line is one that puts parts of rows together, or stands right before that.
bool is_of_merge(const std::string& line, const std::vector<std::string>& merges) {
  const auto own = place_of(line);
  constexpr int lines_before = 8;
  return own && std::ranges::any_of(merges, [&](const std::string& merge) {
           const auto at = place_of(merge);
           return at && at->first == own->first && own->second <= at->second &&
                  own->second >= at->second - lines_before;
         });
}

void take_stage(Stage stage, Diagnosis& diagnosis) {
  if (diagnosis.first) diagnosis.first->stage = stage;
  if (!diagnosis.memory.empty()) diagnosis.memory.front().stage = stage;
}

/// The evidence no longer says where values alone put it.
void withdraw_stage(Diagnosis& diagnosis) {
  std::erase_if(diagnosis.evidence, [](const std::string& line) {
    return line.starts_with("so it goes wrong in the stage ");
  });
  for (std::string& line : diagnosis.evidence) {
    const std::size_t at = line.find("; the bug is in the stage ");
    if (at != line.npos) line.erase(at);
  }
}

}  // namespace

void weigh_terms(const TermJudgement& judged, bool lacks_rows,
                 const std::function<std::vector<std::string>()>& merges_elsewhere,
                 Location& location) {
  Diagnosis& diagnosis = *location.diagnosis;
  const auto is_behind = [](std::optional<Stage> stage) {
    return stage && *stage >= Stage::softmax && *stage < Stage::combine;
  };
  std::vector<std::string> merges = judged.merges;
  if (merges.empty() && is_behind(diagnosis.stage())) merges = merges_elsewhere();
  const bool of_memory = !diagnosis.memory.empty();
  if (of_memory && is_of_merge(diagnosis.memory.front().access_line, merges)) {
    take_stage(Stage::combine, diagnosis);
  }
  if (judged.is_whole) {
    diagnosis.evidence.push_back(
        "O and the log-sum-exps are put together of the right scores, weights and values: numbers "
        "are wrong, not which");
  }
  if (!judged.fault) return;
  TermFault fault = *judged.fault;
  const bool in_merge = !fault.lines.empty() && is_of_merge(fault.lines.front(), merges);
  if (in_merge && is_behind(fault.stage) && fault.cause != Cause::contribution_repeated) {
    fault.stage = Stage::combine;
  }
  // Rows that nobody read are taken for others as tiles are filled.
  if (lacks_rows && fault.stage > Stage::load && are_alike(fault.cause, Cause::permuted)) {
    fault.stage = Stage::load;
  }
  for (const std::string& line : fault.evidence) diagnosis.evidence.push_back(line);
  if (fault.share < 0.5 || makes_infinity(diagnosis.cause)) return;
  const std::optional<Stage> before = diagnosis.stage();
  const bool yields =
      may_come_of_terms(diagnosis.cause) ||
      (of_memory && fault.cause == Cause::misplaced && writes_over_others(diagnosis));
  if (of_memory && !judged.is_whole && writes_over_itself(diagnosis)) diagnosis.certain = false;
  if (of_memory && (judged.is_whole || !yields)) return;
  // Of two flaws at once one may stand for anything: what the terms say is one.
  const bool composed = is_composed(diagnosis);
  const bool sure = diagnosis.sure() && !composed && !of_memory;
  if (composed) diagnosis.certain = false;
  // A row in the place of another is right by its values, whoever took it.
  const bool of_rows = fault.cause == Cause::operand_of_other_row && before == Stage::epilogue &&
                       (diagnosis.cause == Cause::permuted || diagnosis.cause == Cause::misplaced);
  const bool named = diagnosis.cause == fault.cause ||
                     (fault.cause == Cause::unexplained && !composed) ||
                     (!of_memory && !composed && !of_rows && is_flaw(diagnosis) &&
                      are_alike(diagnosis.cause, fault.cause));
  if (sure && !of_rows && diagnosis.cause != fault.cause) {
    // A limit that rows agree on takes fewer words than a rule by their bits.
    if (is_mask(diagnosis.cause) && fault.cause == Cause::mask_off_by_one)
      diagnosis.certain = false;
    if (before == fault.stage || location.source.empty()) location.source = fault.lines;
    return;
  }
  if (!named) {
    diagnosis.certain = false;
    diagnosis.cause = fault.cause;
  }
  const bool keeps_stage = named && !fault.stage_is_told &&
                           (before == fault.or_stage || is_mask(diagnosis.cause) ||
                            (sure && fault.cause == Cause::permuted));
  if (!keeps_stage) take_stage(fault.stage, diagnosis);
  if (!keeps_stage && before != fault.stage) withdraw_stage(diagnosis);
  location.source = fault.lines;
}

}  // namespace lanescope

#include "gates/run/locate_terms.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <string>

#include "debug/causes/known_flaws.h"
#include "gates/process/machine_runtime.h"
#include "gates/run/judge_numbers.h"
#include "gates/run/judge_terms.h"
#include "gates/run/known_numbers.h"
#include "gates/run/wrong_rows.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// A second, or some.
constexpr std::int64_t most_products = std::int64_t{1} << 23;

/// One problem; nothing where it tells nothing: a kernel that failed on a GPU may be right there.
std::optional<TermJudgement> follow_in(const RunOptions& options, bool rough) {
  std::optional<WrongRun> of = run_wrong(options, most_products);
  if (!of) return std::nullopt;
  const Problem& problem = of->dump.info.problem;
  const Provenance provenance = follow_provenance(of->run);
  TermJudgement judged = judge_terms(provenance, problem, of->wrong.rows);
  if (!judged.fault && judged.is_whole) {
    judged.fault = judge_numbers(provenance, problem, inputs_of(of->dump), of->wrong.rows, rough);
  }
  return judged;
}

/// The first problem that tells.
std::optional<TermJudgement> follow_any(const std::vector<RunOptions>& failed, bool rough) {
  constexpr int most = 3;
  std::optional<TermJudgement> whole, misplaced;
  int followed = 0;
  std::vector<const RunOptions*> known;
  for (const RunOptions& options : failed) {
    const bool again = std::any_of(known.begin(), known.end(), [&](const RunOptions* other) {
      return other->shape == options.shape && other->causal == options.causal &&
             other->input == options.input && other->dtype == options.dtype;
    });
    if (again || (misplaced && !options.causal)) continue;
    known.push_back(&options);
    try {
      const std::optional<TermJudgement> judged = follow_in(options, rough);
      if (!judged) continue;
      // Whether rows are stored elsewhere or made of others' Q, the mask tells.
      const bool open = judged->fault && judged->fault->cause == Cause::misplaced &&
                        !options.causal && !misplaced;
      if (open) {
        misplaced = judged;
        continue;
      }
      if (judged->fault && !judged->is_whole) return judged;
      if (judged->is_whole && !(whole && whole->fault)) whole = judged;
    } catch (const Error&) {
      continue;
    }
    if (++followed == most) break;
  }
  return misplaced ? misplaced : whole;
}

/// Lines that put parts of rows together: in the problem with the most keys of those that may be
/// followed, be it right or wrong.
std::vector<std::string> merges_in(const std::vector<RunOptions>& problems) {
  try {
    std::optional<PreparedRun> longest;
    for (RunOptions options : problems) {
      options.backend = "sim";
      PreparedRun run = prepare(options);
      const bool fits = may_be_looked_for(run.request.problem, most_products);
      const bool longer = !longest || run.request.problem.len_kv > longest->request.problem.len_kv;
      if (fits && longer) longest = std::move(run);
    }
    if (!longest || !machine_runtime()) return {};
    longest->request.timeout_seconds *= 10;
    return follow_provenance(*longest).merges;
  } catch (const Error&) {
    return {};
  }
}

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

}  // namespace

void tell_terms(const std::vector<RunOptions>& failed, bool lacks_rows, Location& location) {
  Diagnosis& diagnosis = *location.diagnosis;
  const bool rough = diagnosis.cause == Cause::precision_lost;
  const std::optional<TermJudgement> judged = follow_any(failed, rough);
  if (!judged) return;
  const auto is_behind = [](std::optional<Stage> stage) {
    return stage && *stage >= Stage::softmax && *stage < Stage::combine;
  };
  std::vector<std::string> merges = judged->merges;
  if (merges.empty() && is_behind(diagnosis.stage())) merges = merges_in(failed);
  const bool of_memory = !diagnosis.memory.empty();
  if (of_memory && is_of_merge(diagnosis.memory.front().access_line, merges)) {
    take_stage(Stage::combine, diagnosis);
  }
  if (judged->is_whole) {
    diagnosis.evidence.push_back(
        "O and the log-sum-exps are put together of the right scores, weights and values: numbers "
        "are wrong, not which");
  }
  if (!judged->fault) return;
  TermFault fault = *judged->fault;
  const bool in_merge = std::ranges::any_of(
      fault.lines, [&](const std::string& line) { return is_of_merge(line, merges); });
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
  const bool yields = may_come_of_terms(diagnosis.cause);
  if (of_memory && !judged->is_whole && writes_over_itself(diagnosis)) diagnosis.certain = false;
  if (of_memory && (judged->is_whole || !yields)) return;
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
  const bool keeps_stage = named && (before == fault.or_stage || is_mask(diagnosis.cause) ||
                                     (sure && fault.cause == Cause::permuted));
  if (!keeps_stage) take_stage(fault.stage, diagnosis);
  location.source = fault.lines;
}

}  // namespace lanescope

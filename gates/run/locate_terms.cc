#include "gates/run/locate_terms.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>

#include "gates/process/machine_runtime.h"
#include "gates/run/judge_numbers.h"
#include "gates/run/judge_terms.h"
#include "gates/run/known_numbers.h"
#include "gates/run/weigh_terms.h"
#include "gates/run/wrong_rows.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// A second, or some where it is all in lanes; at most.
constexpr std::int64_t few_products = std::int64_t{3} << 18;
constexpr std::int64_t most_products = std::int64_t{1} << 23;

/// Whether errors are those of rounding, as far as it is known.
enum class Precision : std::uint8_t { kept, open, lost };

/// One problem; nothing where it tells nothing: a kernel that failed on a GPU may be right there.
std::optional<TermJudgement> follow_in(const RunOptions& options, Precision how) {
  std::optional<WrongRun> of = run_wrong(options, most_products);
  if (!of) return std::nullopt;
  const Problem& problem = of->dump.info.problem;
  const Provenance provenance = follow_provenance(of->run);
  TermJudgement judged = judge_terms(provenance, problem, of->dump.info.bc, of->wrong.rows);
  // Where few scores count, weights of the others vanish as they are rounded: they are not left
  // out, where their scores were made.
  const bool may_vanish = options.input != "random" && judged.fault && judged.fault->of_outputs &&
                          judged.fault->cause != Cause::tile_skipped;
  if (may_vanish) judged.fault.reset();
  if (!judged.fault && judged.is_whole) {
    const Inputs inputs = inputs_of(of->dump);
    judged.fault = judge_numbers(provenance, problem, inputs, of->wrong, how == Precision::lost);
    // What is right but for rounding may be too rough, before P is rounded.
    const bool rounds = judged.fault && judged.fault->cause == Cause::precision_lost;
    if ((!judged.fault || rounds) && how == Precision::open) {
      auto rough = judge_numbers(provenance, problem, inputs, of->wrong, true);
      // Weights are rounded to the inputs' type as they may be: what is too rough comes behind
      // them.
      if (rough && rough->of_weights) rough->stage = Stage::pv;
      if (rough && (rough->stage <= Stage::qk || !judged.fault)) judged.fault = std::move(rough);
    }
  }
  return judged;
}

/// Whether a mask tells more: of rows that are stored elsewhere or made of others' Q, and of
/// weights that are out of order, maybe since they were scores.
bool is_told_by_mask(const TermJudgement& judged) {
  if (!judged.fault) return false;
  const Cause cause = judged.fault->cause;
  return cause == Cause::misplaced ||
         (cause == Cause::permuted && judged.fault->stage == Stage::softmax);
}

/// The first problem that tells; where none does, what the first one shows.
std::optional<TermJudgement> follow_any(const std::vector<RunOptions>& failed, Precision how) {
  constexpr int most = 4;
  std::optional<TermJudgement> whole, open, first;
  int followed = 0;
  std::vector<const RunOptions*> known;
  for (const RunOptions& options : failed) {
    const bool again = std::any_of(known.begin(), known.end(), [&](const RunOptions* other) {
      return other->shape == options.shape && other->causal == options.causal &&
             other->input == options.input && other->dtype == options.dtype;
    });
    const bool tells_less = whole && options.input != "random";
    if (again || tells_less || (open && !options.causal)) continue;
    known.push_back(&options);
    try {
      const std::optional<TermJudgement> judged = follow_in(options, how);
      if (!judged) continue;
      if (!open && !options.causal && is_told_by_mask(*judged)) {
        open = judged;
        continue;
      }
      if (open && open->fault->cause == Cause::permuted) {
        // The mask takes scores for those of other keys: they are out of order before it.
        if (judged->sees_others) {
          open->fault->stage = Stage::qk;
          open->fault->evidence.emplace_back(
              "under the mask rows have keys that they do not see: their scores are out of order");
        }
        return open;
      }
      if (judged->fault && !judged->is_whole) return judged;
      if (judged->is_whole && !(whole && whole->fault)) whole = judged;
      if (!first) first = judged;
      // Where no stage was done, that takes no time, and says nothing.
      followed += judged->lines.contains(Stage::qk);
    } catch (const Error&) {
      continue;
    }
    if (followed == most) break;
  }
  return open ? open : whole ? whole : first;
}

/// The problem with the most keys of those that may be followed, be it right or wrong; one that is
/// followed soon, where others do not have many more. Of steep scores most weights vanish, and all
/// that they meet.
Provenance::Outline outline_of(const std::vector<RunOptions>& problems) {
  try {
    std::optional<PreparedRun> longest, soon;
    const auto keys_of = [](const PreparedRun& run) { return run.request.problem.len_kv; };
    const auto is_even = [](const RunOptions& options) { return options.input == "random"; };
    const bool any_even = std::ranges::any_of(problems, is_even);
    for (RunOptions options : problems) {
      if (any_even && !is_even(options)) continue;
      options.backend = "sim";
      PreparedRun run = prepare(options);
      const auto fits = [&](std::int64_t most) {
        return may_be_looked_for(run.request.problem, most);
      };
      std::optional<PreparedRun>& best = fits(few_products) ? soon : longest;
      if (!fits(most_products) || (best && keys_of(run) <= keys_of(*best))) continue;
      best = std::move(run);
    }
    if (!soon || (longest && keys_of(*longest) >= 4 * keys_of(*soon))) soon = std::move(longest);
    if (!soon || !machine_runtime()) return {};
    soon->request.timeout_seconds *= 10;
    return follow_provenance(*soon).outline;
  } catch (const Error&) {
    return {};
  }
}

/// Judges the terms of all rows of these problems, in which outputs are right, until `is_enough` of
/// what one of them shows; false where none is.
template <class IsEnough>
bool follow_right(const std::vector<RunOptions>& right, const IsEnough& is_enough) {
  constexpr int most = 2;
  int followed = 0;
  for (RunOptions options : right) {
    if (followed == most) break;
    options.backend = "sim";
    try {
      PreparedRun run = prepare(options);
      const Problem problem = run.request.problem;
      if (!machine_runtime() || !may_be_looked_for(problem, few_products)) continue;
      run.request.timeout_seconds *= 10;
      std::vector<std::int64_t> rows(
          static_cast<std::size_t>(problem.batch * problem.heads * problem.len_q));
      std::iota(rows.begin(), rows.end(), 0);
      const int bc = run.module->bc;
      ++followed;
      if (is_enough(judge_terms(follow_provenance(run), problem, bc, rows))) return true;
    } catch (const Error&) {
      continue;
    }
  }
  return false;
}

/// Whether the same lines put the same numbers together in a right problem.
bool is_found_in(const std::vector<RunOptions>& right, const TermFault& fault) {
  if (fault.lines.empty()) return false;
  return follow_right(right, [&](const TermJudgement& judged) {
    // In a few rows it may weigh too little to show.
    return judged.fault && judged.fault->cause == fault.cause &&
           judged.fault->share >= fault.share / 2 && !judged.fault->lines.empty() &&
           judged.fault->lines.front() == fault.lines.front();
  });
}

/// Where a stage is done in a right problem.
std::vector<std::string> lines_of_stage(const std::vector<RunOptions>& right, Stage stage) {
  std::vector<std::string> lines;
  follow_right(right, [&](const TermJudgement& judged) {
    const auto found = judged.lines.find(stage);
    if (found != judged.lines.end()) lines = found->second;
    return !lines.empty();
  });
  return lines;
}

}  // namespace

void tell_terms(const std::vector<RunOptions>& failed, const std::vector<RunOptions>& right,
                const SeenWays& seen, Location& location) {
  const Cause cause = location.diagnosis->cause;
  const std::optional<TermJudgement> judged =
      follow_any(failed, cause == Cause::precision_lost ? Precision::lost
                         : cause == Cause::unexplained  ? Precision::open
                                                        : Precision::kept);
  const TermsElsewhere elsewhere{[&] {
                                   // A run that breaks off is not followed.
                                   Provenance::Outline outline = outline_of(failed);
                                   if (outline.empty()) return outline_of(right);
                                   // Few keys may be none of several parts.
                                   if (outline.merges.empty()) {
                                     outline.merges = outline_of(right).merges;
                                   }
                                   return outline;
                                 },
                                 [&](const TermFault& fault) { return is_found_in(right, fault); }};
  weigh_terms(judged.value_or(TermJudgement{}), seen, elsewhere, location);
  const bool is_told = !location.source.empty() || !location.diagnosis->memory.empty();
  const std::optional<Stage> stage = location.diagnosis->stage();
  if (is_told || !stage) return;
  // Where the stage is done at all.
  const bool is_known = judged && judged->lines.contains(*stage);
  location.source = is_known ? judged->lines.at(*stage) : lines_of_stage(right, *stage);
}

}  // namespace lanescope

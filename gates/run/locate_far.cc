#include "gates/run/locate_far.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "debug/dump/site_slots.h"
#include "debug/text/text.h"
#include "gates/run/accessing_lines.h"
#include "gates/run/far_head.h"
#include "gates/run/locate_plan.h"
#include "gates/run/options_text.h"
#include "gates/run/source_place.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::string about(FarSide side) {
  return side == FarSide::queries ? "the last queries of one head, beyond 2^32 elements"
                                  : "the last head of tensors beyond 2^32 elements";
}

/// Where the source of a plain kernel comes to what the index is into.
std::vector<std::string> far_lines(const FarHead& far, SiteId site) {
  std::vector<std::string> lines;
  const auto add = [&](std::size_t array) {
    lines.insert(lines.end(), far.lost[array].begin(), far.lost[array].end());
  };
  if (site == SiteId::q_smem) add(0);
  if (site == SiteId::k_smem) add(1);
  if (site == SiteId::k_smem && lines.empty()) add(2);
  if (site == SiteId::v_smem) add(2);
  if (site == SiteId::o_final) add(3);
  if (site == SiteId::o_final || site == SiteId::lse) add(4);
  return lines;
}

/// Of a plain kernel each side by itself: a grid has places for so many heads, and they are long.
std::vector<FarSide> sides_of(const RunOptions& given) {
  if (is_module_path(given.kernel)) return {FarSide::query_heads, FarSide::keys};
  return {FarSide::heads, FarSide::queries};
}

/// A run with one side far.
struct FarRun {
  FarSide side;
  std::string options;
  FarHead far;
};

/// Each side that the kernel takes, where the SIMT machine runs it; of a kernel of the tree up to
/// the first that is wrong. `too_long`: a block goes through all items.
std::vector<FarRun> far_runs(const RunOptions& given, const std::string& backend, bool& too_long) {
  const bool has_ptx = is_module_path(given.kernel);
  if (backend != "sim" && !has_ptx) return {};
  RunOptions options = given;
  if (has_ptx && backend != "sim") options.backend = "sim";
  std::vector<FarRun> runs;
  for (const FarSide side : sides_of(given)) {
    try {
      if (std::optional<FarHead> far = run_far_head(options, side)) {
        too_long = far->too_long;
        if (too_long) break;  // so does the other side
        runs.push_back({side, options_text(options, far->problem), std::move(*far)});
        if (!runs.back().far.right() && !has_ptx) break;
      }
    } catch (const Error&) {
      continue;
    }
  }
  return runs;
}

/// Whether nothing says that any index of a plain kernel were meant to go beyond 32 bits: no side
/// is right, nor are the scores of one or the values that it weighs, and where queries and keys are
/// far together, O is not where it belongs either.
bool is_narrow_throughout(const std::vector<FarRun>& runs) {
  return std::ranges::all_of(runs, [](const FarRun& run) {
    const bool is_square = run.far.problem.len_q == run.far.problem.len_kv;
    const bool reads_some =
        run.far.sums_hold || (run.side == FarSide::keys && run.far.weighs_values);
    // Whoever clears O first leaves zeros where nothing is stored.
    const bool stores_none = run.far.unwritten > 0 || !run.far.weighs_values;
    return !run.far.right() && !reads_some && (!is_square || !run.far.fault.empty() || stores_none);
  });
}

}  // namespace

Diagnosis overflow_of(const FarHead& far, FarSide side, bool queries_hold) {
  Diagnosis diagnosis;
  diagnosis.cause = Cause::index_overflow;
  diagnosis.certain = true;
  diagnosis.by_end = !far.fault.empty();
  const bool of_keys =
      !far.partials_hold && (side == FarSide::keys || (side == FarSide::heads && queries_hold));
  Divergence at;
  at.block = far.block;
  at.tile = -1;
  at.batch = far.problem.batch - 1;
  at.head = far.problem.heads - 1;
  at.row = at.col = 0;
  const std::int64_t unwritten_partials = std::ranges::count(far.partials, poison32);
  const bool of_partials = unwritten_partials > 0;
  const bool of_values = of_keys && far.sums_hold;
  const bool of_scores = of_keys && !far.sums_hold && far.weighs_values;
  at.site = of_values     ? SiteId::v_smem
            : of_keys     ? SiteId::k_smem
            : of_partials ? SiteId::o_partial
                          : far.first.value_or(SiteId::o_final);
  // Of Q, O and the log-sum-exp, the lines that do not come to their rows tell which.
  const bool of_queries = !of_keys && !of_partials && !far.lost[0].empty();
  const bool stored =
      !of_keys && !of_queries && (of_partials || (far.fault.empty() && far.unwritten > 0));
  if (of_queries) at.site = SiteId::q_smem;
  at.stage = far.partials_hold ? Stage::combine : stored ? Stage::epilogue : Stage::load;
  at.got = far.got;
  at.want = far.want;
  diagnosis.first = at;
  diagnosis.stage_certain = of_keys || of_queries || of_partials || stored || far.partials_hold;
  diagnosis.evidence.push_back(
      far.fault.empty()
          ? std::to_string(far.differing) + " of " + std::to_string(far.compared) +
                " values of the last rows differ from what they are as the only ones" +
                (far.unwritten > 0 ? "; " + std::to_string(far.unwritten) + " were never written"
                                   : "")
          : "the last rows' block does not end: " + far.fault);
  diagnosis.evidence.push_back(
      of_values     ? "the log-sum-exps are right, so K is read where it is: the index is into V"
      : of_scores   ? "the values that O weighs are read where they are: the index is into K"
      : of_keys     ? "with K and V of few elements it is right: the index is into K or V"
      : of_queries  ? "the rows of Q are not read where they are: the index is into Q"
      : of_partials ? std::to_string(unwritten_partials) +
                          " values of the last block's partials were never written: the index is "
                          "into them"
      : stored ? "the index is into O or the log-sum-exp"
      : far.partials_hold
          ? "what the splits left is where it belongs: the index is the combine's"
          : "it is wrong with few keys, too: the index is into Q, O, the log-sum-exp or the "
            "partials");
  return diagnosis;
}

void check_far_head(const RunOptions& given, Location& location) {
  bool too_long = false;
  const std::vector<FarRun> runs = far_runs(given, location.backend, too_long);
  if (runs.empty()) {
    location.not_tried.push_back(std::string("tensors of more than 2^31 elements") +
                                 (too_long ? ": few blocks go through all of them" : ""));
    return;
  }
  const bool is_limit = is_module_path(given.kernel) && !given.strict && is_narrow_throughout(runs);
  if (is_limit) {
    location.limits.push_back(
        "all indices are of 32 bits: right for tensors of fewer than 2^31 elements");
  }
  for (const FarRun& run : runs) {
    location.runs.push_back({run.options, about(run.side), run.far.right()});
    location.runs.back().limit = is_limit;
  }
  const auto wrong = std::ranges::find_if(runs, [](const FarRun& run) { return !run.far.right(); });
  if (is_limit || wrong == runs.end()) return;
  location.options = wrong->options;
  location.too_large = true;
  const std::optional<FarHead> near_keys =
      wrong->side == FarSide::heads ? run_far_head(given, FarSide::query_heads) : std::nullopt;
  location.diagnosis = overflow_of(wrong->far, wrong->side, near_keys && near_keys->right());
  const Divergence& at = *location.diagnosis->first;
  if (is_module_path(given.kernel)) {
    location.source = far_lines(wrong->far, at.site);
    if (location.source.empty()) location.source = accessing_lines(*location.diagnosis);
  } else {
    location.source = source_places(
        given.kernel + (given.specimen.empty() ? "" : "+" + given.specimen), at.stage, at.site);
  }
}

}  // namespace lanescope

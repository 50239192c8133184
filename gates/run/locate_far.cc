#include "gates/run/locate_far.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "debug/text/text.h"
#include "gates/run/far_head.h"
#include "gates/run/locate_plan.h"
#include "gates/run/source_place.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::string about(FarSide side) {
  return side == FarSide::queries ? "the last queries of one head, beyond 2^32 elements"
                                  : "the last head of tensors beyond 2^32 elements";
}

/// `side`: what is far; `queries_hold`: with K and V of one head, it is right.
Diagnosis overflow_of(const FarHead& far, FarSide side, bool queries_hold) {
  Diagnosis diagnosis;
  diagnosis.cause = Cause::index_overflow;
  diagnosis.certain = true;
  const bool of_keys = side == FarSide::keys || (side == FarSide::heads && queries_hold);
  Divergence at;
  at.block = far.block;
  at.tile = -1;
  at.batch = 0;
  at.head = far.problem.heads - 1;
  at.row = at.col = 0;
  const bool of_partials = far.unwritten_partials > 0;
  at.site = of_keys       ? SiteId::k_smem
            : of_partials ? SiteId::o_partial
                          : far.first.value_or(SiteId::o_final);
  const bool stored = !of_keys && (of_partials || (far.fault.empty() && far.unwritten > 0));
  at.stage = stored ? Stage::epilogue : Stage::load;
  at.got = far.got;
  at.want = far.want;
  diagnosis.first = at;
  diagnosis.evidence.push_back(
      far.fault.empty()
          ? std::to_string(far.differing) + " of " + std::to_string(far.compared) +
                " values of the last rows differ from what they are as the only ones" +
                (far.unwritten > 0 ? "; " + std::to_string(far.unwritten) + " were never written"
                                   : "")
          : "the last rows' block does not end: " + far.fault);
  diagnosis.evidence.push_back(
      of_keys       ? "with K and V of few elements it is right: the index is into K or V"
      : of_partials ? std::to_string(far.unwritten_partials) +
                          " values of the last block's partials were never written: the index is "
                          "into them"
      : stored ? "the index is into O or the log-sum-exp"
               : "it is wrong with few keys, too: the index is into Q, O, the log-sum-exp or the "
                 "partials");
  return diagnosis;
}

/// Of a plain kernel each side by itself: a grid has places for so many heads, and they are long.
std::vector<FarSide> sides_of(const RunOptions& given) {
  if (is_module_path(given.kernel)) return {FarSide::query_heads, FarSide::keys};
  return {FarSide::heads, FarSide::queries};
}

/// Nothing where the SIMT machine does not run it.
std::optional<FarHead> run_far(const RunOptions& options, FarSide side) {
  try {
    return run_far_head(options, side);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void check_far_head(const RunOptions& given, Location& location) {
  bool any = false;
  for (const FarSide side : sides_of(given)) {
    RunOptions options = given;
    const bool has_ptx = is_module_path(given.kernel);
    if (location.backend != "sim" && has_ptx) options.backend = "sim";
    const std::optional<FarHead> far =
        location.backend == "sim" || has_ptx ? run_far(options, side) : std::nullopt;
    if (!far) continue;
    any = true;
    location.runs.push_back({options_text(options, far->problem), about(side), far->right()});
    if (far->right()) continue;
    location.options = location.runs.back().options;
    location.too_large = true;
    const std::optional<FarHead> near_keys =
        side == FarSide::heads ? run_far_head(given, FarSide::query_heads) : std::nullopt;
    location.diagnosis = overflow_of(*far, side, near_keys && near_keys->right());
    const Divergence& at = *location.diagnosis->first;
    if (!is_module_path(given.kernel)) {
      location.source = source_places(
          given.kernel + (given.specimen.empty() ? "" : "+" + given.specimen), at.stage, at.site);
    }
    return;
  }
  if (!any) location.not_tried.push_back("tensors of more than 2^31 elements");
}

}  // namespace lanescope

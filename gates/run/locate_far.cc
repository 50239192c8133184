#include "gates/run/locate_far.h"

#include <string>
#include <utility>

#include "debug/text/text.h"
#include "gates/run/far_head.h"
#include "gates/run/locate_plan.h"
#include "gates/run/source_place.h"

namespace lanescope {
namespace {

constexpr const char* about = "the last head of tensors beyond 2^32 elements";

Diagnosis overflow_of(const FarHead& far, const std::optional<FarHead>& near_keys) {
  Diagnosis diagnosis;
  diagnosis.cause = Cause::index_overflow;
  diagnosis.certain = true;
  // With K and V of one head, what is still wrong is not theirs.
  const bool of_keys = near_keys && near_keys->right();
  Divergence at;
  at.block = far.block;
  at.tile = -1;
  at.batch = 0;
  at.head = far.block;
  at.row = at.col = 0;
  at.site = of_keys ? SiteId::k_smem : far.first.value_or(SiteId::o_final);
  const bool stored = !of_keys && far.fault.empty() && far.unwritten > 0;
  at.stage = stored ? Stage::epilogue : Stage::load;
  at.got = far.got;
  at.want = far.want;
  diagnosis.first = at;
  diagnosis.evidence.push_back(
      far.fault.empty()
          ? std::to_string(far.differing) + " of " + std::to_string(far.compared) +
                " values of the last head differ from what it gives as the only one" +
                (far.unwritten > 0 ? "; " + std::to_string(far.unwritten) + " were never written"
                                   : "")
          : "the last head does not end: " + far.fault);
  diagnosis.evidence.push_back(
      of_keys     ? "with K and V of one head for all it is right: the index is into K or V"
      : stored    ? "the index is into O or the log-sum-exp"
      : near_keys ? "it is wrong with K and V of one head, too: the index is into Q, O, the "
                    "log-sum-exp or the partials"
                  : "which tensor it is into, no further run could tell");
  return diagnosis;
}

}  // namespace

void check_far_head(const RunOptions& given, Location& location) {
  if (is_module_path(given.kernel) || location.backend != "sim") {
    location.not_tried.push_back("tensors of more than 2^31 elements");
    return;
  }
  const std::optional<FarHead> far = run_far_head(given, true);
  if (!far) {
    location.not_tried.push_back("tensors of more than 2^31 elements");
    return;
  }
  RunOptions options = given;
  location.runs.push_back({options_text(options, far->problem), about, far->right()});
  if (far->right()) return;
  location.options = location.runs.back().options;
  location.diagnosis = overflow_of(*far, run_far_head(given, false));
  const Divergence& at = *location.diagnosis->first;
  location.source = source_places(
      given.kernel + (given.specimen.empty() ? "" : "+" + given.specimen), at.stage, at.site);
}

}  // namespace lanescope

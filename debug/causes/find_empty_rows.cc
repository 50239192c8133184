#include <algorithm>
#include <cmath>
#include <optional>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"
#include "debug/judge/compare.h"

namespace lanescope {

void find_empty_rows(const Scene& scene, Findings& findings) {
  const DumpInfo& info = scene.info();
  // Of a kernel that is traced, the row's operands say more.
  const bool traced = std::any_of(info.sites.begin(), info.sites.end(),
                                  [](const DumpSite& entry) { return !is_output(entry.site.id); });
  if (!scene.at_end() || traced || !info.problem.causal) return;
  const Tensor& tensor = *scene.dump().find(name_of(scene.site()));
  std::optional<double> held;
  const Tensor* const lse = scene.dump().find_site("lse") ? scene.dump().find("lse") : nullptr;
  std::int64_t rows = 0;
  bool is_rule = true, lse_is_nan = false;
  for (std::int64_t tile = 0; is_rule && tile < info.row_tiles(); ++tile) {
    scene.judge().judge(tile, [&](SiteId id, std::int64_t, std::int64_t, Judgement judgement,
                                  const reference::Bounded& want) {
      if (judgement != Judgement::chain || id != scene.site()) return;
      const BlockPlace place = info.place(tile * info.splits);
      const reference::Index cols = want.value.cols();
      for (reference::Index row = 0; row < want.value.rows(); ++row) {
        const bool empty = info.problem.visible_keys(info.query_of(place, row)) == 0;
        rows += empty;
        const std::int64_t at = info.first_q_row(place) + row;
        lse_is_nan =
            lse_is_nan || (empty && lse && !is_unwritten(*lse, at) && std::isnan(lse->at(at)));
        for (reference::Index col = 0; col < cols; ++col) {
          const std::int64_t index = (info.first_q_row(place) + row) * cols + col;
          const double got = tensor.at(index);
          const bool right = !is_unwritten(tensor, index) &&
                             compare(got, want.value(row, col), want.error(row, col)).holds;
          if (!empty || is_unwritten(tensor, index)) {
            is_rule = is_rule && right;
          } else if (!held) {
            held = got;
          } else {
            is_rule = is_rule && (got == *held || (std::isnan(got) && std::isnan(*held)));
          }
        }
      }
    });
  }
  if (!is_rule || !held || rows < 2) return;
  const bool is_lse = scene.site() == SiteId::lse;
  const bool of_nan = std::isnan(*held);
  // l = 0 has a logarithm, -inf; a sum that is NaN has none, though a kernel may ask l > 0.
  const bool of_sum = of_nan && (is_lse || lse_is_nan);
  Finding finding{of_sum   ? Cause::masked_row_unguarded
                  : of_nan ? Cause::divided_by_zero
                           : Cause::wrong_formula,
                  1};
  finding.formula = true;
  finding.evidence = {std::string(is_lse ? "the log-sum-exp" : "O") +
                      " of every row that sees no key is " + value_text(*held) +
                      (is_lse ? ", the logarithm of an empty sum is -inf" : ", an empty sum is 0") +
                      "; all " + "other rows are right"};
  if (of_nan && !of_sum) {
    Finding rival = finding;
    rival.cause = Cause::masked_row_unguarded;
    rival.evidence = {"-inf - (-inf) in the softmax or the combine pass leaves NaN there, too"};
    findings.push_back(rival);
    finding.bits -= 1;  // the more usual one is named
  }
  findings.push_back(finding);
}

}  // namespace lanescope

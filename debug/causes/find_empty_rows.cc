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
  std::int64_t rows = 0;
  bool is_rule = true;
  for (std::int64_t tile = 0; is_rule && tile < info.row_tiles(); ++tile) {
    scene.judge().judge(tile, [&](SiteId id, std::int64_t, std::int64_t, Judgement judgement,
                                  const reference::Bounded& want) {
      if (judgement != Judgement::chain || id != scene.site()) return;
      const BlockPlace place = info.place(tile * info.splits);
      const reference::Index cols = want.value.cols();
      for (reference::Index row = 0; row < want.value.rows(); ++row) {
        const bool empty = info.problem.visible_keys(info.query_of(place, row)) == 0;
        rows += empty;
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
  Finding finding{std::isnan(*held) ? Cause::divided_by_zero : Cause::wrong_formula, 1};
  finding.formula = true;
  finding.evidence = {std::string(is_lse ? "the log-sum-exp" : "O") +
                      " of every row that sees no key is " + value_text(*held) +
                      (is_lse ? ", the logarithm of an empty sum is -inf" : ", an empty sum is 0") +
                      "; all " + "other rows are right"};
  findings.push_back(finding);
}

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "debug/judge/compare.h"
#include "debug/judge/judge.h"
#include "reference/reach.h"

namespace lanescope {

/// Compares the values that a dump holds of one block with what they should be, one by one, and
/// says in a verdict how that went.
class ValueJudge {
 public:
  /// What comes out is added to `verdict`, of the block's row tile. `reach`, of the block as far as
  /// it was gone through, says which bounds say nothing; it outlives the object.
  ValueJudge(const Judge& judge, std::int64_t block, const reference::Reach& reach,
             const JudgeObserver& observer, RowTileVerdict& verdict);
  /// Judges the slots of `id`, a traced site, that stand for a row of `want`.
  void judge(SiteId id, std::int64_t tile, Judgement judgement, const reference::Bounded& want);
  /// Judges an output tensor, where the dump has it, against `want` [rows, its columns]. Where the
  /// outputs are made of the registers of `register_site`, their holders are named.
  void judge_output(SiteId id, SiteId register_site, Judgement judgement,
                    const reference::Bounded& want);
  /// Adds the values judged since the last call about which no judgement said anything to the
  /// verdict. To be called after each tile.
  void count_untold();

 private:
  /// Compares an element of a tensor with `want` at (row, col) and keeps what comes out.
  template <class Where>
  Comparison take(SiteReport& report, const Tensor& tensor, std::int64_t index, double got,
                  const reference::Bounded& want, std::int64_t row, std::int64_t col,
                  const Where& where);
  /// Of the elements of a site, keeps those about which no judgement yet said anything.
  void keep_untold(SiteId id);
  SiteReport& report(SiteId id, Stage stage, Judgement judgement);
  void note_row(std::int64_t row, const Comparison& outcome);
  Divergence place(std::int64_t tile, Axes axes, std::int64_t row, std::int64_t col) const;

  const Judge& judge_;
  const JudgeObserver& observer_;
  const DumpInfo& info_;
  std::int64_t block_;
  BlockPlace place_;
  const reference::Reach& reach_;
  std::map<SiteId, std::vector<std::int64_t>> untold_;  ///< elements of the tile at hand, sorted
  std::vector<double> held_;                            ///< of the slots at hand
  std::vector<std::int64_t> vacuous_;                   ///< those of the judgement at hand
  RowTileVerdict& verdict_;
};

}  // namespace lanescope

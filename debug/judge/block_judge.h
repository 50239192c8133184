#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "debug/judge/judge.h"
#include "debug/judge/value_judge.h"
#include "reference/reach.h"

namespace lanescope {

/// Judges one block, tile by tile: each site against the true value (chain), and against what the
/// reference makes of the values that the stage received as traced (local).
class BlockJudge {
 public:
  /// What comes out is added to `verdict`, of the block's row tile.
  BlockJudge(const Judge& judge, std::int64_t block, const JudgeObserver& observer,
             RowTileVerdict& verdict);
  /// Judges the traced sites.
  void run();
  /// After `run`: what the block must leave, and what it left, as traced: nothing where it is not
  /// known.
  reference::Partial truth() const { return reference_.partial(); }
  std::optional<reference::Partial> left() const;
  /// Judges the outputs, of the row tile whose first block this is.
  void judge_outputs(Judgement judgement, const reference::Outputs& want);
  /// How far the values of the block can be apart, as far as `run` came.
  reference::Reach& reach() { return reach_; }
  /// The rows of outputs `want` of which some bound says nothing.
  std::vector<reference::Index> rows_left_open(const reference::Outputs& want) const;
  /// Adds the values that were judged, and about which no judgement said anything, to the verdict.
  void count_untold() { values_.count_untold(); }

 private:
  using Array = reference::Array;
  using Bounded = reference::Bounded;
  using TileState = reference::TileState;

  void judge_tile(std::int64_t tile);
  /// Judges a loaded tile. Its rows from `owed` on are not the problem's: any numbers, or none is
  /// written.
  void judge_load(SiteId id, std::int64_t tile, const Array& want, std::int64_t owed);
  /// Whether a traced site holds what is no number where it should be one.
  bool spoils(SiteId id, std::int64_t tile, const Bounded& truth) const;
  void judge_scores(std::int64_t tile, const TileState& truth);
  void judge_softmax(std::int64_t tile, const TileState& truth);
  void judge_product(std::int64_t tile, const TileState& truth);
  void judge_partial();
  void remember(std::int64_t tile);

  /// Whether `id` was traced for the tile. A tile that holds no key for any row of the block may be
  /// left out by a kernel, in any site; another one counts as traced even if nothing was written.
  bool traced(SiteId id, std::int64_t tile) const;
  /// Whether the last tile that holds a key was traced.
  bool saw_the_end() const { return info_.tiles.end >= needed_; }
  /// The tile as traced, its valid rows; nothing where it was not traced, or the run broke off
  /// before all of it was written.
  std::optional<Array> held(SiteId id, std::int64_t tile, std::int64_t rows) const;
  std::optional<Array> held(SiteId id, std::int64_t tile) const;
  /// What the stage received of a site: as traced, else as injected, else it is not known.
  std::optional<Array> received(SiteId id, std::int64_t tile, const Array& injected) const;

  /// Judges what was traced of `id`.
  void judge(SiteId id, std::int64_t tile, Judgement judgement, const Bounded& want);

  const Judge& judge_;
  const DumpInfo& info_;
  std::int64_t block_;
  BlockPlace place_;
  reference::OnlineBlock reference_;
  reference::Reach reach_;
  std::int64_t needed_;  ///< tiles that the kernel may not leave out: the first ones
  std::optional<Array> m_before_, l_before_, o_before_;  ///< as traced after the tile before
  ValueJudge values_;
};

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <optional>

#include "debug/judge.h"
#include "debug/tally.h"

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

 private:
  using Array = reference::Array;
  using Bounded = reference::Bounded;
  using TileState = reference::TileState;

  void judge_tile(std::int64_t tile);
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

  /// Judges the slots of `id` that stand for a row of `want`.
  void judge(SiteId id, std::int64_t tile, Judgement judgement, const Bounded& want);
  /// Judges an output tensor against `want` [rows, its columns].
  void judge_output(SiteId id, SiteId register_site, Judgement judgement, const Bounded& want);
  SiteReport& report(SiteId id, Stage stage, Judgement judgement);
  void note_row(std::int64_t row, const Comparison& outcome);
  Divergence place(std::int64_t tile, Axes axes, std::int64_t row, std::int64_t col) const;

  const Judge& judge_;
  const JudgeObserver& observer_;
  const DumpInfo& info_;
  bool broke_off_;  ///< the run: what it did not write is a consequence of that
  std::int64_t block_;
  BlockPlace place_;
  reference::OnlineBlock reference_;
  std::int64_t needed_;  ///< tiles that the kernel may not leave out: the first ones
  std::optional<Array> m_before_, l_before_, o_before_;  ///< as traced after the tile before
  RowTileVerdict& verdict_;
};

}  // namespace lanescope

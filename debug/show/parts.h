#pragma once

#include <vector>

#include "debug/judge/verdicts.h"
#include "debug/show/selection.h"
#include "debug/show/show.h"
#include "debug/text/text.h"

// The ways in which `show` lays values out. Each writes to a page that has the title already.

namespace lanescope {

/// One tile of a site of a dump, as it was selected, beside what it should be.
struct ShownTile {
  const Dump& dump;
  const Selection& at;
  std::vector<Place> places;
  const TileWant* want;  ///< nullptr: not judged

  Judged judge(const Place& place) const {
    return want != nullptr ? want->judge(*at.tensor, place) : Judged{};
  }
};

/// An element's place by row and column; of the lanes that hold it, the one that is furthest off.
class TileElements {
 public:
  /// Those of the lanes that are selected.
  explicit TileElements(const ShownTile& tile);
  /// The rows and columns that have elements.
  Range rows, cols;
  /// nullptr where no lane stands for the element.
  const Place* find(std::int64_t row, std::int64_t col) const;

 private:
  std::vector<Place> places_;  ///< of rows x cols; row −1 where there is none
};

/// `width` columns for a value, its colour its verdict.
std::string value_cell(const Tensor& tensor, const Place& place, const Judged& judged, int width,
                       const Style& style);
/// A value's error in units of its bound; where the bound is 0 "Δ" and the error itself; "-" where
/// it is not judged.
std::string error_text(const Tensor& tensor, const Place& place, const Judged& judged);
/// The colour of text about a value: none where it holds or is not judged.
std::string verdict_cell(std::string_view text, const Judged& judged, const Style& style);

/// A site in registers: the lanes of the warp side by side, as many registers of each as fit.
void write_grid(Page& page, const ShownTile& tile, std::int64_t warp);
/// The same of one lane, a line per register: its place, value and bits, and what it should be.
void write_lane(Page& page, const ShownTile& tile, std::int64_t warp, std::int64_t lane);
/// A site as rows x columns, from the column `first_col` on, as many as fit. Throws UsageError
/// where the tile has no such column.
void write_tile(Page& page, const ShownTile& tile, std::int64_t first_col);
/// Throws UsageError where nothing of the tile is judged.
void write_heat(Page& page, const ShownTile& tile);

/// One tile of a watched site.
struct WatchedTile {
  std::int64_t tile;
  const TileWant* want;
  TileTally tally;
  std::vector<std::string> broken;  ///< invariants of the online softmax, and where
};
/// The tiles of the selected block, in their order.
std::vector<WatchedTile> watched_tiles(const Dump& dump, const Selection& at,
                                       const BlockWants& wants);
/// The site over the tiles, a line each: how it came out and what is broken; of a lane that is
/// selected, its values.
void write_watch(Page& page, const Dump& dump, const Selection& at, const BlockWants& wants);

/// Whether `id` is one of the row values of the online softmax: m_prev, m, alpha, l.
bool is_row_state(SiteId id);

}  // namespace lanescope

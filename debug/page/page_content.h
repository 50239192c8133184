#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "debug/judge/diff.h"

namespace lanescope {

/// The tensor elements that hold one tile of a site, or a block's rows of an output, slot by slot.
class PageSlots {
 public:
  /// `dump` must outlive the slots and hold the site's values for (block, tile).
  PageSlots(const Dump& dump, SiteId site, std::int64_t block, std::int64_t tile);

  const Tensor& tensor() const { return *tensor_; }
  std::int64_t count() const { return count_; }
  /// The element of the tensor.
  std::int64_t index(std::int64_t slot) const { return first_ + slot; }
  /// The element of the tile, −1 where the slot stands for none.
  std::int64_t row(std::int64_t slot) const;
  std::int64_t col(std::int64_t slot) const;

 private:
  const DumpSite* registers_ = nullptr;  ///< where the slots have coordinates of their own
  const Tensor* tensor_;
  std::int64_t first_, count_, cols_;
};

/// How the slots of one tile fare under one judgement.
struct PageVerdict {
  std::vector<float> error;         ///< got − want; where the value is wrong, want itself
  std::vector<float> bound;         ///< −1: the slot is not judged
  std::vector<std::uint8_t> wrong;  ///< a bit per slot
};

/// One tile of a site, kept slot by slot. The tile is 0 for what a block has once.
struct PageTile {
  SiteId site;
  std::int64_t block, tile;
  std::array<std::optional<PageVerdict>, 2> verdicts;  ///< by Judgement
};

/// Which part of a dump a page is about; nothing: as much as may be.
struct PageChoice {
  std::optional<Range> blocks, tiles;
};

/// What a page tells of a dump. A large dump is judged in part: as many blocks, evenly spread, as a
/// second allows; and tiles are kept slot by slot up to a size that a browser opens at once,
/// those first where a lane broke the run off, where a site first diverged or is worst.
struct PageContent {
  static constexpr float nan_is_right = -1;

  std::vector<std::int64_t> blocks;  ///< judged
  Range tiles;                       ///< those that may be kept
  DiffReport report;                 ///< of the judged blocks
  /// [blocks, info.tiles.count() or 1]: a tile's largest error over its bound, above 1 where
  /// something is wrong, nan_is_right where nothing is and a NaN is wanted, NaN where it is not
  /// judged.
  std::map<std::pair<SiteId, Judgement>, std::vector<float>> worst;
  std::vector<PageTile> kept;
};

/// Throws UsageError where the dump lacks what `choice` asks for, and as diff_against_reference
/// does.
PageContent page_content(const Dump& dump, const PageChoice& choice, int threads);

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <optional>

#include "debug/dump/dump.h"
#include "reference/arithmetic.h"

namespace lanescope {

/// Which lane and register (or thread, of shared memory) stands for an element; −1: not known.
struct Holder {
  std::int64_t warp = -1, lane = -1, reg = -1;
};

/// Whether element `index` still holds the poison that it had before the run. (f32, f16, bf16)
inline bool is_unwritten(const Tensor& tensor, std::int64_t index) {
  return tensor.bits(index) == (tensor.type == ElementType::f32 ? poison32 : poison16);
}

/// The slots of one site of a checked dump, by block and tile. A slot is [warp, lane, reg] or
/// [row, col], counted row-major; several slots may stand for the same element of the tile.
/// Blocks and tiles are counted from the problem's first, not from the dump's.
class SiteSlots {
 public:
  /// Both must outlive the object; `entry` has a tensor in `dump`. `sums_lanes`: of l, though the
  /// kernel does not declare it.
  SiteSlots(const Dump& dump, const DumpSite& entry, bool sums_lanes = false);

  const Site& site() const { return entry_.site; }
  const Tensor& tensor() const { return tensor_; }
  /// Slots of one (block, tile).
  std::int64_t count() const { return count_; }
  /// Whether the dump holds the slots of (block, tile); all tiles are one to a site that is not
  /// per tile.
  bool holds(std::int64_t block, std::int64_t tile) const;
  /// Index in the tensor of the first slot of a (block, tile) that the dump holds.
  std::int64_t first(std::int64_t block, std::int64_t tile) const;
  /// The element of the tile that `slot` stands for, −1 where for none.
  int row(std::int64_t slot) const {
    if (!coordinates_) return static_cast<int>(slot / site().cols);
    return coordinates_[2 * slot];
  }
  int col(std::int64_t slot) const {
    if (!coordinates_) return static_cast<int>(slot % site().cols);
    return coordinates_[2 * slot + 1];
  }
  Holder holder(std::int64_t slot) const;
  /// The first slot that stands for (row, col), −1 where there is none.
  std::int64_t slot_of(std::int64_t row, std::int64_t col) const;
  /// Whether no slot of a (block, tile) that the dump holds was written.
  bool untouched(std::int64_t block, std::int64_t tile) const;
  /// Whether every slot that stands for an element of the first `rows` rows was written.
  bool whole(std::int64_t block, std::int64_t tile, std::int64_t rows) const;
  /// Whether every slot that stands for an element of a row from `first_row` on holds a finite
  /// number, or was not written.
  bool finite_from(std::int64_t block, std::int64_t tile, std::int64_t first_row) const;
  /// Whether a row's value is the sum of its slots (Site::in_lanes).
  bool sums_lanes() const { return sums_lanes_; }
  /// [rows, site().cols]: the first `rows` rows of the tile, each element from the first slot that
  /// stands for it, or their sum, NaN where none does.
  reference::Array elements(std::int64_t block, std::int64_t tile, std::int64_t rows) const;

 private:
  const DumpSite& entry_;
  const Tensor& tensor_;
  const std::int16_t*
      coordinates_;  ///< row and column of each slot; null where they follow from it
  Range blocks_, tiles_;
  std::int64_t count_;
  bool sums_lanes_;
};

}  // namespace lanescope

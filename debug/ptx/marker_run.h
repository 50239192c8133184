#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "reference/site.h"
#include "reference/window.h"

namespace lanescope::ptx {

/// Where the values of a marked site go, or come from: slots by their place in the tile, whichever
/// lane it is that says it. A site over queries has slots for each of 32 lanes, since lanes hold
/// its values in common, and are wrong one by one.
struct MarkedSlots {
  std::byte* base = nullptr;  ///< of the window's first block and tile; nullptr: there are none
  Window window{};
  int rows = 0, cols = 0;  ///< of a tile
  int element = 0;         ///< bytes of a value
  bool per_tile = false;
  bool of_lanes = false;  ///< over queries

  /// Values of a tile.
  std::int64_t count() const { return std::int64_t{rows} * (of_lanes ? 32 : cols); }
  /// Which of them a lane's value at (row, col) is.
  std::int64_t index(int row, int col, int lane) const {
    if (!of_lanes) return std::int64_t{row} * cols + col;
    const int chunk = 4 * words_per_chunk(rows * element / 4) / element;  // reference/window.h
    return (row / chunk * std::int64_t{32} + lane) * chunk + row % chunk;
  }
  /// nullptr where the window lacks the block or the tile.
  std::byte* find(std::int64_t block, std::int64_t tile, int row, int col, int lane) const {
    if (!base || block < window.block_begin || block >= window.block_end) return nullptr;
    if (!per_tile) tile = window.tile_begin;
    if (tile < window.tile_begin || tile >= window.tile_end) return nullptr;
    const std::int64_t tiles = per_tile ? window.tile_end - window.tile_begin : 1;
    const std::int64_t own = (block - window.block_begin) * tiles + (tile - window.tile_begin);
    return base + (own * count() + index(row, col, lane)) * element;
  }
};

/// What a run has of the kernel's markers (kernels/trace/lanescope.h).
struct MarkerRun {
  struct OfSite {
    MarkedSlots shown, given;
    /// The thread that traced each value, of MarkedSlots::count(); < 0: none has.
    std::int16_t* holders = nullptr;
  };
  std::array<OfSite, site_id_count> sites{};
  std::int64_t heads = 0, q_tiles = 0, row_tiles = 0;
  int br = 0;
  bool injects = false;  ///< whether anything is given
};

}  // namespace lanescope::ptx

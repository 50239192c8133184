#pragma once

#include <cstddef>
#include <cstdint>

namespace lanescope {

/// What a trace is narrowed to, each half-open: a buffer by blocks and tiles, printed text also by
/// warps and lanes.
struct Window {
  std::int64_t block_begin, block_end;
  int tile_begin, tile_end;
  int warp_begin, warp_end;
  int lane_begin, lane_end;
};

/// A buffer of slots in global memory. Every value has a fixed place:
///   site, then block, then tile (both counted from the window's begin), then
///   registers  [warp][chunk][lane][bytes of the chunk]: a warp stores chunks of up to 16 bytes of
///              its 32 lanes side by side, so every store is coalesced
///   shared     [row][col], whatever the tile's own order in shared memory; global the same
struct Slots {
  std::byte* base;
  Window window;
};

/// Words of one access to a run of `words` 32-bit words: four where they divide it, else two or
/// one.
constexpr int words_per_chunk(int words) { return words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1; }

}  // namespace lanescope

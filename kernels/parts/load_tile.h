#pragma once

#include <cstdint>

#include "kernels/device/device.h"

namespace lanescope::kernels {

/// tile ← rows [first, first + TileType::rows) of a head, zeros from row `len` on. The block's
/// `Threads` threads take the elements in turn: element i goes to thread i % Threads.
template <int Threads, int D, class T, class TileType>
LANESCOPE_DEVICE void load_tile(const T* rows, int first, int len, TileType& tile) {
  for (int i = device::thread(); i < TileType::rows * D; i += Threads) {
    const int row = i / D, col = i % D;
    tile.at(row, col) =
        first + row < len ? rows[static_cast<std::int64_t>(first + row) * D + col] : T{0};
  }
}

}  // namespace lanescope::kernels

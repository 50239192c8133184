#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/device/device.h"

namespace lanescope::kernels {

/// How many elements of a row a thread takes at a time.
template <class T>
inline constexpr int elements_at_once = std::is_same_v<T, device::e4m3> ? 16 : 1;

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

/// The same from 8-bit elements, which become f16. A thread takes 16 of them, which are one access
/// to memory: chunk i of the tile goes to thread i % Threads.
template <int Threads, int D, class TileType>
LANESCOPE_DEVICE void load_tile(const device::e4m3* rows, int first, int len, TileType& tile) {
  constexpr int elements = elements_at_once<device::e4m3>;
  struct alignas(16) Chunk {
    std::uint32_t x[4];
  };
  static_assert(sizeof(Chunk) == elements && D % elements == 0);
  for (int i = device::thread(); i < TileType::rows * D / elements; i += Threads) {
    const int row = i * elements / D, col = i * elements % D;
    Chunk chunk = {};
    if (first + row < len) {
      const auto* from = rows + static_cast<std::int64_t>(first + row) * D + col;
      chunk = *reinterpret_cast<const Chunk*>(from);
    }
    LANESCOPE_UNROLL
    for (int j = 0; j < elements; j += 2) {
      const auto pair = static_cast<std::uint16_t>(chunk.x[j / 4] >> j % 4 * 8);
      const std::uint32_t halves = device::e4m3x2_to_f16x2(pair);
      tile.at(row, col + j) = {static_cast<std::uint16_t>(halves)};
      tile.at(row, col + j + 1) = {static_cast<std::uint16_t>(halves >> 16)};
    }
  }
}

}  // namespace lanescope::kernels

#pragma once

#include <cstdint>

#include "kernels/device/device.h"

namespace lanescope::kernels {

/// A tile of K, V or Q on its way from global to shared memory, in registers of the block's
/// `Threads` threads: fetched while the one before is worked on, stored when that is done. A thread
/// takes 16 bytes of a row at a time; elements of 8 bits become f16.
template <int Threads, class T, class TileType>
class TileInFlight {
 public:
  static constexpr int elements = 16 / sizeof(T);  ///< of a chunk
  static constexpr int chunks = TileType::rows * TileType::cols / elements / Threads;
  static_assert(chunks * elements * Threads == TileType::rows * TileType::cols);

  /// Fetches rows [first, first + TileType::rows) of a head, zeros from row `len` on.
  LANESCOPE_DEVICE void fetch(const T* rows, int first, int len) {
    LANESCOPE_UNROLL
    for (int i = 0; i < chunks; ++i) {
      const device::Coordinate at = place(i * Threads + device::thread());
      chunks_[i] = {};
      if (first + at.row >= len) continue;
      const T* from = rows + static_cast<std::int64_t>(first + at.row) * TileType::cols + at.col;
      chunks_[i] = *reinterpret_cast<const Chunk*>(from);
    }
  }

  LANESCOPE_DEVICE void store(TileType& tile) const {
    LANESCOPE_UNROLL
    for (int i = 0; i < chunks; ++i) {
      const device::Coordinate at = place(i * Threads + device::thread());
      LANESCOPE_UNROLL
      for (int j = 0; j < elements; j += 2) {
        std::uint32_t pair;
        if constexpr (sizeof(T) == 1) {
          pair =
              device::e4m3x2_to_f16x2(static_cast<std::uint16_t>(chunks_[i].x[j / 4] >> j % 4 * 8));
        } else {
          pair = chunks_[i].x[j / 2];
        }
        tile.at(at.row, at.col + j) = {static_cast<std::uint16_t>(pair)};
        tile.at(at.row, at.col + j + 1) = {static_cast<std::uint16_t>(pair >> 16)};
      }
    }
  }

  /// The thread that stores an element.
  static constexpr int owner(int row, int col) {
    const int at = TileType::transposed ? col / elements * TileType::rows + row
                                        : row * row_chunks + col / elements;
    return at % Threads;
  }

 private:
  struct alignas(16) Chunk {
    std::uint32_t x[4];
  };
  static constexpr int row_chunks = TileType::cols / elements;

  /// Where chunk `at` of the tile begins. Neighbouring threads store side by side.
  static constexpr device::Coordinate place(int at) {
    if (TileType::transposed) return {at % TileType::rows, at / TileType::rows * elements};
    return {at / row_chunks, at % row_chunks * elements};
  }

  Chunk chunks_[chunks];
};

}  // namespace lanescope::kernels

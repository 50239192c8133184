#pragma once

#include "kernels/device/portable.h"

namespace lanescope::device {

/// A Rows×Cols tile as copies of tensors with swizzle leave it: boxes of 128 bytes of each row, or
/// 64 where 128 do not divide it, one behind the other. Where a box has 128 bytes of a row, chunk c
/// of 16 bytes of row r lies where chunk c ^ (r mod 8) would; where it has 64, where chunk c ^ (r /
/// 2 mod 4) would.
template <class E, int Rows, int Cols>
struct TensorTile {
  using Element = E;
  static constexpr int rows = Rows;
  static constexpr int cols = Cols;
  static constexpr int element_bytes = static_cast<int>(sizeof(E));
  static constexpr int row_bytes = Cols * element_bytes % 128 == 0 ? 128 : 64;
  static_assert(Rows % 8 == 0 && Cols * element_bytes % row_bytes == 0);
  static constexpr int box_cols = row_bytes / element_bytes;
  static constexpr int boxes = Cols / box_cols;
  static constexpr int bytes = Rows * Cols * element_bytes;
  static constexpr int box_bytes = bytes / boxes;
  alignas(1024) E x[boxes][Rows][box_cols];

  LANESCOPE_DEVICE E& at(int row, int col) {
    constexpr int chunk = 16 / element_bytes;
    const int mixed = row_bytes == 128 ? row % 8 : row / 2 % 4;
    return x[col / box_cols][row][((col % box_cols / chunk) ^ mixed) * chunk + col % chunk];
  }
};

}  // namespace lanescope::device

#pragma once

#include "kernels/device/portable.h"

namespace lanescope::device {

/// A Rows×Cols tile of 16-bit elements as copies of tensors with 128-byte swizzle leave it: boxes
/// of 64 columns, one behind the other, a row of a box 128 bytes, of which chunk c of row r lies
/// where chunk c ^ (r mod 8) would.
template <class E, int Rows, int Cols>
struct TensorTile {
  static_assert(sizeof(E) == 2 && Rows % 8 == 0 && Cols % 64 == 0);
  using Element = E;
  static constexpr int rows = Rows;
  static constexpr int cols = Cols;
  static constexpr int box_cols = 64;
  static constexpr int boxes = Cols / box_cols;
  static constexpr int bytes = Rows * Cols * static_cast<int>(sizeof(E));
  static constexpr int box_bytes = bytes / boxes;
  alignas(1024) E x[boxes][Rows][box_cols];

  LANESCOPE_DEVICE E& at(int row, int col) {
    return x[col / box_cols][row][((col % box_cols / 8) ^ (row % 8)) * 8 + col % 8];
  }
};

}  // namespace lanescope::device

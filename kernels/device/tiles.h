#pragma once

#include <cstdint>

#include "kernels/device/portable.h"

namespace lanescope::device {

/// A Rows×Cols tile in shared memory, each row followed by Pad elements, so that lanes that read a
/// column meet different banks.
template <class E, int Rows, int Cols, int Pad = 0>
struct Tile {
  using Element = E;
  static constexpr int rows = Rows;
  static constexpr int cols = Cols;
  static constexpr int stride = Cols + Pad;  ///< from one row to the next
  static constexpr bool transposed = false;
  E x[Rows][Cols + Pad];

  LANESCOPE_DEVICE E& at(int row, int col) { return x[row][col]; }
  LANESCOPE_DEVICE const E& at(int row, int col) const { return x[row][col]; }
};

/// A Rows×Cols tile stored column by column, each column followed by Pad elements.
template <class E, int Rows, int Cols, int Pad = 0>
struct TransposedTile {
  using Element = E;
  static constexpr int rows = Rows;
  static constexpr int cols = Cols;
  static constexpr int stride = Rows + Pad;  ///< from one column to the next
  static constexpr bool transposed = true;
  E x[Cols][Rows + Pad];

  LANESCOPE_DEVICE E& at(int row, int col) { return x[col][row]; }
  LANESCOPE_DEVICE const E& at(int row, int col) const { return x[col][row]; }
};

/// A Rows×Cols tile of 16-bit elements whose 16-byte chunks are swizzled: chunk c of row r lies
/// where chunk c ^ (r mod 8) would, so that the eight rows that ldmatrix reads at once, and the
/// rows that a warp writes, meet different banks.
template <class E, int Rows, int Cols>
struct SwizzledTile {
  static_assert(sizeof(E) == 2 && Cols % 64 == 0, "a row is a multiple of eight chunks");
  using Element = E;
  static constexpr int rows = Rows;
  static constexpr int cols = Cols;
  static constexpr int chunk = 8;  ///< elements
  alignas(128) E x[Rows][Cols];

  LANESCOPE_DEVICE E* chunk_at(int row, int col) {
    return &x[row][((col / chunk) ^ (row % 8)) * chunk];
  }
  LANESCOPE_DEVICE const E* chunk_at(int row, int col) const {
    return &x[row][((col / chunk) ^ (row % 8)) * chunk];
  }
  LANESCOPE_DEVICE E& at(int row, int col) { return chunk_at(row, col)[col % chunk]; }
};

/// One row of a tile, which its thread owns.
template <class E, int Cols>
struct RowOfTile {
  using Element = E;
  static constexpr int cols = Cols;
  int row;
  E* x;
};

}  // namespace lanescope::device

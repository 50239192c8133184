#pragma once

#include <cstdint>

#include "kernels/device/hopper.h"

namespace lanescope::kernels {

// Tiles in shared memory as operands of wgmma: their matrix descriptors (PTX ISA, "Matrix
// Descriptor Format"), and what is added to one for a part of the tile further on. The address is
// the lowest field, in units of 16 bytes.

template <class TileType>
inline constexpr device::Swizzle swizzle_of =
    TileType::row_bytes == 128 ? device::Swizzle::b128 : device::Swizzle::b64;

/// Rows from `row` on, the first columns that a product sums over.
template <class TileType>
LANESCOPE_DEVICE std::uint64_t along_cols(TileType& tile, int row) {
  return device::matrix_descriptor(device::shared_address(&tile.x[0][row][0]), 16,
                                   8 * TileType::row_bytes, swizzle_of<TileType>);
}
/// The same for the columns from `col` on.
template <class TileType>
constexpr std::uint64_t from_col(int col) {
  return static_cast<std::uint64_t>(col / TileType::box_cols * TileType::box_bytes +
                                    col % TileType::box_cols * TileType::element_bytes) /
         16;
}

/// All columns, the first rows that a product sums over.
template <class TileType>
LANESCOPE_DEVICE std::uint64_t along_rows(TileType& tile) {
  return device::matrix_descriptor(device::shared_address(&tile.x[0][0][0]), TileType::box_bytes,
                                   8 * TileType::row_bytes, swizzle_of<TileType>);
}
/// The same for the rows from `row` on.
template <class TileType>
constexpr std::uint64_t from_row(int row) {
  return static_cast<std::uint64_t>(row) * TileType::row_bytes / 16;
}

}  // namespace lanescope::kernels

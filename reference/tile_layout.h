#pragma once

#include <compare>
#include <cstdint>

#include "reference/site.h"

namespace lanescope {

/// How a tile lies in shared memory, in elements from its first (kernels/trace/lanescope.h,
/// Layout).
struct TileLayout {
  int row = 0, col = 0;
  int panel = 0, panel_stride = 0;  ///< columns side by side, 0: all
  int swizzle = 0;                  ///< bits | base << 8 | shift << 16

  constexpr std::int64_t offset(int r, int c) const {
    const std::int64_t at =
        std::int64_t{r} * row +
        (panel > 0 ? std::int64_t{c % panel} * col + std::int64_t{c / panel} * panel_stride
                   : std::int64_t{c} * col);
    const int bits = swizzle & 15, base = swizzle >> 8 & 15, shift = swizzle >> 16 & 15;
    return at ^ (at >> shift & ((std::int64_t{1} << bits) - 1) << base);
  }
  auto operator<=>(const TileLayout&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A tile that a kernel has named in a block's shared memory.
struct NamedTile {
  SiteId site{};
  std::int64_t begin = 0;  ///< byte of its first element
  int rows = 0, cols = 0;
  int element = 0;  ///< bytes
  TileLayout layout;

  auto operator<=>(const NamedTile&) const = default;  // NOLINT(modernize-use-nullptr)
};

}  // namespace lanescope

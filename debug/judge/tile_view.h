#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "debug/dump/dump.h"
#include "debug/judge/diff.h"

namespace lanescope {

/// "batch 0, head 1, queries from 64", of the block's first row; "split 2" where there are several,
/// "heads 0..3" where their rows share a tile.
std::string block_text(const DumpInfo& info, std::int64_t block);

/// One tile of one block as a matrix in a dump's tensor.
struct TileView {
  const Tensor* tensor;
  std::int64_t first;   ///< the element at row 0, column 0
  std::int64_t stride;  ///< elements from a row to the next
  std::int64_t rows, cols;
  std::int64_t index(std::int64_t row, std::int64_t col) const {
    return first + row * stride + col;
  }
};

/// The blocks and tiles for which `name` has values: those traced for a site, all of the problem
/// for q, k, v, o_final and lse; one tile, 0, where the values are a block's rather than a tile's.
Range blocks_of(const Dump& dump, std::string_view name);
Range tiles_of(const Dump& dump, std::string_view name);

/// The tile of `name`: a site in shared memory, an input or an output. For k and v that is the
/// tile's keys in the kv head of the block's head. Ragged ends have fewer rows.
/// `name` is in the dump and not in registers; block and tile lie in blocks_of and tiles_of.
TileView tile_view(const Dump& dump, std::string_view name, std::int64_t block, std::int64_t tile);

/// The slot of register `reg` of a lane among the slots of one (block, tile) of a site.
constexpr std::int64_t lane_slot(const Site& site, std::int64_t warp, std::int64_t lane,
                                 std::int64_t reg) {
  return (warp * 32 + lane) * site.regs + reg;
}

/// The element of tensor `name` that `divergence` points at; none where it points nowhere.
std::optional<std::int64_t> index_at(const Dump& dump, std::string_view name,
                                     const Divergence& divergence);

}  // namespace lanescope

#include "debug/tile_view.h"

#include <algorithm>

namespace lanescope {
namespace {

bool is_query_rows(std::string_view name) {
  return name == "q" || name == "o_final" || name == "lse";
}
bool is_key_rows(std::string_view name) { return name == "k" || name == "v"; }

}  // namespace

BlockPlace place_of(const DumpInfo& info, std::int64_t block) {
  const std::int64_t head = block / info.q_tiles();
  return {.batch = head / info.problem.heads,
          .head = head % info.problem.heads,
          .query = block % info.q_tiles() * info.br};
}

Range blocks_of(const Dump& dump, std::string_view name) {
  if (is_query_rows(name) || is_key_rows(name)) return {0, dump.info.block_count()};
  return dump.info.blocks;
}

Range tiles_of(const Dump& dump, std::string_view name) {
  if (is_key_rows(name)) return {0, dump.info.kv_tiles()};
  const DumpSite* site = dump.find_site(name);
  if (is_query_rows(name) || !site->site.per_tile) return {0, 1};
  return dump.info.tiles;
}

TileView tile_view(const Dump& dump, std::string_view name, std::int64_t block, std::int64_t tile) {
  const DumpInfo& info = dump.info;
  const Problem& problem = info.problem;
  const Tensor* tensor = dump.find(name);
  const BlockPlace place = place_of(info, block);
  if (is_key_rows(name)) {
    const std::int64_t first = tile * info.bc;
    const std::int64_t head = place.batch * problem.heads_kv + problem.kv_head(place.head);
    return {.tensor = tensor,
            .first = (head * problem.len_kv + first) * problem.d,
            .stride = problem.d,
            .rows = std::min<std::int64_t>(info.bc, problem.len_kv - first),
            .cols = problem.d};
  }
  if (is_query_rows(name)) {
    const std::int64_t cols = name == "lse" ? 1 : problem.d;
    const std::int64_t head = place.batch * problem.heads + place.head;
    return {.tensor = tensor,
            .first = (head * problem.len_q + place.query) * cols,
            .stride = cols,
            .rows = std::min<std::int64_t>(info.br, problem.len_q - place.query),
            .cols = cols};
  }
  const Site& site = dump.find_site(name)->site;
  const Range tiles = tiles_of(dump, name);
  const std::int64_t place_in_dump =
      (block - info.blocks.begin) * tiles.count() + tile - tiles.begin;
  return {.tensor = tensor,
          .first = place_in_dump * site.rows * site.cols,
          .stride = site.cols,
          .rows = site.rows,
          .cols = site.cols};
}

std::int64_t slot_index(const DumpInfo& info, const Site& site, std::int64_t block,
                        std::int64_t tile, std::int64_t warp, std::int64_t lane, std::int64_t reg) {
  const Range tiles = site.per_tile ? info.tiles : Range{0, 1};
  const std::int64_t place = (block - info.blocks.begin) * tiles.count() + tile - tiles.begin;
  return ((place * site.warps + warp) * 32 + lane) * site.regs + reg;
}

bool is_unwritten(ElementType type, std::uint32_t bits) {
  if (type == ElementType::f32) return bits == poison32;
  return size_of(type) == 2 && bits == poison16;
}

std::optional<std::uint32_t> bits_at(const Dump& dump, std::string_view name,
                                     const Divergence& divergence) {
  const Tensor* tensor = dump.find(name);
  if (tensor == nullptr) return std::nullopt;
  const DumpSite* entry = dump.find_site(name);
  const bool registers = entry != nullptr && entry->site.space == Space::registers;
  const Range tiles = tiles_of(dump, name);
  const std::int64_t tile = tiles == Range{0, 1} ? 0 : divergence.tile;
  if (!blocks_of(dump, name).contains(divergence.block) || !tiles.contains(tile)) {
    return std::nullopt;
  }
  if (registers) {
    const Site& site = entry->site;
    const bool inside = Range{0, site.warps}.contains(divergence.warp) &&
                        Range{0, 32}.contains(divergence.lane) &&
                        Range{0, site.regs}.contains(divergence.reg);
    if (!inside) return std::nullopt;
    return tensor->bits(slot_index(dump.info, site, divergence.block, tile, divergence.warp,
                                   divergence.lane, divergence.reg));
  }
  const TileView view = tile_view(dump, name, divergence.block, tile);
  const bool inside =
      Range{0, view.rows}.contains(divergence.row) && Range{0, view.cols}.contains(divergence.col);
  if (!inside) return std::nullopt;
  return tensor->bits(view.index(divergence.row, divergence.col));
}

}  // namespace lanescope

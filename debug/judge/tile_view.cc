#include "debug/judge/tile_view.h"

#include <algorithm>

#include "debug/dump/site_slots.h"

namespace lanescope {
namespace {

bool is_query_rows(std::string_view name) {
  return name == "q" || name == "o_final" || name == "lse";
}
bool is_key_rows(std::string_view name) { return name == "k" || name == "v"; }
bool is_scale(std::string_view name) { return is_input(name) && name.ends_with("_scale"); }

}  // namespace

std::string block_text(const DumpInfo& info, std::int64_t block) {
  const BlockPlace at = info.place(block);
  const std::int64_t first = info.head_of(at, 0), last = info.head_of(at, info.rows(at) - 1);
  return "batch " + std::to_string(at.batch) +
         (first == last ? ", head " + std::to_string(first)
                        : ", heads " + std::to_string(first) + ".." + std::to_string(last)) +
         ", queries from " + std::to_string(info.query_of(at, 0)) +
         (info.splits > 1 ? ", split " + std::to_string(at.split) : "");
}

Range blocks_of(const Dump& dump, std::string_view name) {
  if (is_query_rows(name) || is_key_rows(name) || is_scale(name)) {
    return {0, dump.info.block_count()};
  }
  return dump.info.blocks;
}

Range tiles_of(const Dump& dump, std::string_view name) {
  if (is_key_rows(name)) return {0, dump.info.kv_tiles()};
  if (is_query_rows(name) || is_scale(name)) return {0, 1};
  const DumpSite* site = dump.find_site(name);
  if (!site->site.per_tile) return {0, 1};
  return dump.info.tiles;
}

TileView tile_view(const Dump& dump, std::string_view name, std::int64_t block, std::int64_t tile) {
  const DumpInfo& info = dump.info;
  const Problem& problem = info.problem;
  const Tensor* tensor = dump.find(name);
  const BlockPlace place = info.place(block);
  if (is_key_rows(name)) {
    const std::int64_t left = problem.len_kv - info.key_of(place, tile);
    return {.tensor = tensor,
            .first = info.first_kv_row(place, tile) * problem.d,
            .stride = problem.d,
            .rows = std::clamp<std::int64_t>(left, 0, info.bc),
            .cols = problem.d};
  }
  if (is_query_rows(name)) {
    const std::int64_t cols = name == "lse" ? 1 : problem.d;
    return {.tensor = tensor,
            .first = info.first_q_row(place) * cols,
            .stride = cols,
            .rows = info.rows(place),
            .cols = cols};
  }
  if (is_scale(name)) {
    const std::int64_t head = name == "q_scale"
                                  ? place.batch * problem.heads + place.head
                                  : place.batch * problem.heads_kv + problem.kv_head(place.head);
    return {.tensor = tensor, .first = head, .stride = 1, .rows = 1, .cols = 1};
  }
  const DumpSite& entry = *dump.find_site(name);
  return {.tensor = tensor,
          .first = SiteSlots(dump, entry).first(block, tile),
          .stride = entry.site.cols,
          .rows = entry.site.rows,
          .cols = entry.site.cols};
}

std::optional<std::int64_t> index_at(const Dump& dump, std::string_view name,
                                     const Divergence& divergence) {
  if (dump.find(name) == nullptr) return std::nullopt;
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
    const SiteSlots slots(dump, *entry);
    return slots.first(divergence.block, tile) +
           lane_slot(site, divergence.warp, divergence.lane, divergence.reg);
  }
  const TileView view = tile_view(dump, name, divergence.block, tile);
  const bool inside =
      Range{0, view.rows}.contains(divergence.row) && Range{0, view.cols}.contains(divergence.col);
  if (!inside) return std::nullopt;
  return view.index(divergence.row, divergence.col);
}

}  // namespace lanescope

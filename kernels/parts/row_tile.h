#pragma once

#include <cstdint>

#include "kernels/parts/arguments.h"

namespace lanescope::kernels {

// How the problem is cut for kernels in two passes: rows of several heads to a tile, the keys in
// splits.

/// A tile of query rows. The heads_per_tile heads of a group share a kv head and lie behind each
/// other in q, o and lse: they are taken for one head of `rows` rows.
struct RowTile {
  int batch, head, head_kv;  ///< head: the group's first
  int begin;                 ///< first row of the tile
  int rows;                  ///< of the group: heads_per_tile · len_q
};

/// The tile's first row in its group's rows of q, and how many of those there are.
LANESCOPE_DEVICE int first_row(const RowTile& t) { return t.begin; }
LANESCOPE_DEVICE int row_count(const Attention&, const RowTile& t) { return t.rows; }

/// index = (batch · groups + group) · ceil(rows / Br) + tile
template <int Br>
LANESCOPE_DEVICE RowTile row_tile_of(const Attention& a, std::int64_t index) {
  RowTile t;
  t.rows = a.heads_per_tile * a.len_q;
  const int tiles = (t.rows + Br - 1) / Br, groups = a.heads / a.heads_per_tile;
  const auto group = static_cast<int>(index / tiles);
  t.batch = group / groups;
  t.head = group % groups * a.heads_per_tile;
  t.head_kv = t.head / (a.heads / a.heads_kv);
  t.begin = static_cast<int>(index % tiles) * Br;
  return t;
}

/// The K/V tiles that a block goes through.
struct Split {
  int first, tiles;
};

/// All splits have the same number of tiles, but for the end of the keys; of its own, a block
/// visits those that hold a key which some row sees. Rows of several heads: the last query of one
/// of them sees all keys.
template <int Br, int Bc>
LANESCOPE_DEVICE Split split_of(const Attention& a, const RowTile& t, int split) {
  const int all = (a.len_kv + Bc - 1) / Bc, most = (all + a.splits - 1) / a.splits;
  int keys = a.len_kv;
  if (a.causal && a.heads_per_tile == 1) {
    const int end = t.begin + Br < t.rows ? t.begin + Br : t.rows;
    const int visible = end + a.len_kv - a.len_q;
    keys = visible < 0 ? 0 : visible < keys ? visible : keys;
  }
  const int first = split * most, end = (keys + Bc - 1) / Bc;
  const int tiles = end - first;
  return {first, tiles < 0 ? 0 : tiles < most ? tiles : most};
}

/// What the rows of a RowTile see.
struct GroupMask {
  const Attention& a;
  int begin;
  LANESCOPE_DEVICE bool sees(int row, int key) const {
    return visible(a, (begin + row) % a.len_q, key);
  }
  /// Whether all rows from `row` on see all keys up to `key`; in a group, a head begins anew behind
  /// any row.
  LANESCOPE_DEVICE bool all_see(int row, int key) const {
    return visible(a, a.heads_per_tile == 1 ? begin + row : 0, key);
  }
};

}  // namespace lanescope::kernels

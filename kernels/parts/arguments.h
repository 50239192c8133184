#pragma once

#include <cstdint>

#include "kernels/device/device.h"
#include "reference/problem.h"

namespace lanescope::kernels {

/// What the blocks of a first pass leave for a combine pass, fp32 in global memory: unnormalised O
/// [blocks, Br, D], m and l [blocks, Br].
struct Partials {
  float* o;
  float* m;
  float* l;
};

/// What every kernel is launched with. q, o: [batch, heads, len_q, D]; k, v: [batch, heads_kv,
/// len_kv, D]; lse: [batch, heads, len_q]. Rows are contiguous, the base addresses aligned to 16.
struct Attention {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;
  int batch, heads, heads_kv;
  int len_q, len_kv;
  float scale_log2;  ///< log2(e) / sqrt(d): the softmax runs in base 2
  int causal;        ///< 1: query i sees the keys j <= i + len_kv − len_q
  // Of kernels in two passes.
  int splits;          ///< ranges of keys that blocks of their own go through
  int heads_per_tile;  ///< query heads of one kv head whose rows share the tiles
  Partials partials;
};

/// The part of the problem that one block computes: Br query rows of one head.
/// block = (batch · heads + head) · ceil(len_q / Br) + q_tile
struct Work {
  int batch, head, head_kv;
  int q_begin;  ///< first query row
  int tiles;    ///< K/V tiles to visit: all that hold a key some row of the block sees
};

/// The block's first row in its head's rows of q, and how many of those there are.
LANESCOPE_DEVICE int first_row(const Work& w) { return w.q_begin; }
LANESCOPE_DEVICE int row_count(const Attention& a, const Work&) { return a.len_q; }

/// `Index`: std::int64_t, or int where the caller knows that it is wide enough, since a GPU divides
/// such faster.
template <int Br, int Bc, class Index>
LANESCOPE_DEVICE Work work_of(const Attention& a, Index block) {
  const int q_tiles = (a.len_q + Br - 1) / Br;
  const auto sequence = static_cast<int>(block / q_tiles);
  Work w;
  w.batch = sequence / a.heads;
  w.head = sequence % a.heads;
  w.head_kv = w.head / (a.heads / a.heads_kv);
  w.q_begin = static_cast<int>(block % q_tiles) * Br;
  int keys = a.len_kv;
  if (a.causal) {
    const int q_end = w.q_begin + Br < a.len_q ? w.q_begin + Br : a.len_q;
    const int visible = q_end + a.len_kv - a.len_q;
    keys = visible < 0 ? 0 : visible < keys ? visible : keys;
  }
  w.tiles = (keys + Bc - 1) / Bc;
  return w;
}

/// Whether query `row` sees `key`.
LANESCOPE_DEVICE bool visible(const Attention& a, int row, int key) {
  return key < a.len_kv && (!a.causal || key <= row + a.len_kv - a.len_q);
}

/// What the rows of a block see, the row of query `first_query` being row 0.
struct Mask {
  const Attention& a;
  int first_query;
  LANESCOPE_DEVICE bool sees(int row, int key) const { return visible(a, first_query + row, key); }
  /// Whether all rows from `row` on see all keys up to `key`.
  LANESCOPE_DEVICE bool all_see(int row, int key) const { return sees(row, key); }
  /// Keys that `row` sees, the first ones; of one that sees none 0 or less.
  LANESCOPE_DEVICE int keys_of(int row) const {
    const int end = first_query + row + a.len_kv - a.len_q + 1;
    return a.causal && end < a.len_kv ? end : a.len_kv;
  }
};

/// First element of a head's rows; 64-bit, since B·H·S·D passes 2^31.
template <class T, int D>
LANESCOPE_DEVICE const T* rows_of(const void* base, int batch, int heads, int head, int len) {
  return static_cast<const T*>(base) + (static_cast<std::int64_t>(batch) * heads + head) * len * D;
}

/// Where a stage's rows lie in the outputs: element (batch, head, row, 0) is row_index · D.
LANESCOPE_DEVICE std::int64_t row_index(const Attention& a, const Work& w, int row) {
  return (static_cast<std::int64_t>(w.batch) * a.heads + w.head) * a.len_q + row;
}

}  // namespace lanescope::kernels

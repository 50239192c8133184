#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/parts/arguments.h"

namespace lanescope::kernels {

// What persistent blocks take their work from: a work item is what is a block elsewhere, Br query
// rows of one head, and its seams are those of that block.

/// Heads whose K and V stay in the L2 together, by twos: 32 MiB of an H200's, of wide rows half of
/// that, since the first items of a section read its heads all at once, and memory has to follow.
inline int heads_of_section(const Attention& a, int row_bytes) {
  const std::int64_t l2_bytes = row_bytes < 256 ? 32 << 20 : 16 << 20;
  const std::int64_t bytes = 2LL * a.len_kv * row_bytes * a.heads_kv / a.heads;
  const int all = a.batch * a.heads;
  int heads = 2;
  while (heads < all && 2 * heads * bytes <= l2_bytes) heads *= 2;
  return heads < all ? heads : all;
}

template <class WorkType>
struct WorkItem {
  int block = -1;  ///< none
  WorkType work = {};
};

template <int Br>
LANESCOPE_DEVICE int item_count(const Attention& a) {
  return a.batch * a.heads * ((a.len_q + Br - 1) / Br);
}

/// The block that item `index` is. Causal: the last rows of a head have most to do; those of the
/// heads of a section come first, then those before them.
template <int Br>
LANESCOPE_DEVICE int block_of_item(const Attention& a, int section, int index) {
  if (!a.causal) return index;
  const int q_tiles = (a.len_q + Br - 1) / Br;
  const int first = index / (section * q_tiles) * section, within = index % (section * q_tiles);
  const int left = a.batch * a.heads - first, heads = left < section ? left : section;
  return (first + within % heads) * q_tiles + q_tiles - 1 - within / heads;
}

template <int Br, int Bc, class AttentionType>
LANESCOPE_DEVICE auto item_of(const AttentionType& a, int section, int index) {
  const int block = block_of_item<Br>(a, section, index);
  const auto work = work_of<Br, Bc>(a, block);
  return WorkItem<std::remove_const_t<decltype(work)>>{block, work};
}

}  // namespace lanescope::kernels

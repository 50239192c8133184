#pragma once

#include "kernels/parts/arguments.h"
#include "kernels/parts/mma_stages.h"
#include "kernels/trace/seam.h"

namespace lanescope::kernels {

/// The K/V tiles of a block that goes through all that it sees; those of a split:
/// kernels/parts/row_tile.h.
struct TilesFromStart {
  static constexpr int first = 0;
  int tiles;
};

/// FlashAttention-2, Algorithm 1, over the K/V tiles of a block with the stages of
/// kernels/parts/mma_stages.h. `Ring` tiles of K and V lie in shared memory: one is worked on, the
/// others are on their way. Mask{a, first row} knows what the rows of the block see.
template <Gate G, class Stages, class Mask, int Ring>
struct MmaTileLoop {
  using Queries = typename Stages::Queries;
  using Keys = typename Stages::Keys;
  using Scores = typename Stages::Scores;
  using Weights = typename Stages::Weights;
  using Rows = typename Stages::Rows;
  using Output = typename Stages::Output;

  struct SharedMemory {
    Queries q;
    Keys k[Ring];
    Keys v[Ring];

    /// Tells the memory checker the names of its tiles.
    template <class Visit>
    void name_tiles(Visit&& visit) {
      constexpr const char* names[][2] = {{"k[0]", "v[0]"}, {"k[1]", "v[1]"}, {"k[2]", "v[2]"}};
      static_assert(Ring <= 3);
      visit("q", q);
      for (int i = 0; i < Ring; ++i) {
        visit(names[i][0], k[i]);
        visit(names[i][1], v[i]);
      }
    }
  };

  /// The rows of `rows`, a Work or a RowTile, over the tiles of `keys`: from the loads to
  /// epilogue(o, m, l), which gets the unnormalised O, m and l after the last tile.
  template <class QueryRows, class Tiles, class Seam, class Epilogue>
  LANESCOPE_DEVICE static void run(const Attention& a, const QueryRows& rows, const Tiles& keys,
                                   SharedMemory& smem, const Seam& seam, const Epilogue& epilogue) {
    using T = typename Stages::Element;
    constexpr int D = Stages::head_dim, Bc = Stages::bc;
    const T* q = rows_of<T, D>(a.q, rows.batch, a.heads, rows.head, a.len_q);
    const T* k = rows_of<T, D>(a.k, rows.batch, a.heads_kv, rows.head_kv, a.len_kv);
    const T* v = rows_of<T, D>(a.v, rows.batch, a.heads_kv, rows.head_kv, a.len_kv);
    const Mask mask{a, first_row(rows)};
    const auto load_tile = [&](int tile) {
      const int first_key = (keys.first + tile) * Bc, slot = tile % Ring;
      if constexpr (runs<G, Stage::qk>) Stages::load(k, first_key, a.len_kv, smem.k[slot]);
      if constexpr (runs<G, Stage::pv>) Stages::load(v, first_key, a.len_kv, smem.v[slot]);
    };
    Scores s;
    Weights p;
    Rows m, alpha, l;
    Output o;
    m.fill(device::minus_infinity);
    l.fill(0.0f);
    o.fill(0.0f);

    if constexpr (runs<G, Stage::qk>) Stages::load(q, first_row(rows), row_count(a, rows), smem.q);
    LANESCOPE_UNROLL
    for (int tile = 0; tile < Ring - 1; ++tile) {
      if (tile < keys.tiles) load_tile(tile);
      device::commit_copies();
    }
    for (int tile = 0; tile < keys.tiles; ++tile) {
      device::wait_copies<Ring - 2>();
      device::block_sync();  // Q, K and V of this tile are complete, those of the last one free
      if (tile + Ring - 1 < keys.tiles) load_tile(tile + Ring - 1);
      device::commit_copies();
      const int slot = tile % Ring;
      if (tile == 0) seam(0, site::q_smem(smem.q));
      seam(tile, site::k_smem(smem.k[slot]), site::v_smem(smem.v[slot]));

      if constexpr (runs<G, Stage::qk>) {
        Stages::qk(smem.q, smem.k[slot], mask, (keys.first + tile) * Bc, s);
      }
      seam(tile, site::s(s), site::m_prev(m));

      if constexpr (runs<G, Stage::softmax>) Stages::softmax(a.scale_log2, s, m, alpha, l, p);
      seam(tile, site::m(m), site::alpha(alpha), site::p(p), site::l(l));

      if constexpr (runs<G, Stage::pv>) Stages::pv(smem.v[slot], p, alpha, o);
      seam(tile, site::o(o));
    }
    if constexpr (runs<G, Stage::epilogue>) epilogue(o, m, l);
  }
};

}  // namespace lanescope::kernels

#pragma once

#include "debug/slots.h"
#include "gates/seam.h"
#include "kernels/attention.h"
#include "kernels/mma_stages.h"
#include "kernels/online_softmax.h"
#include "kernels/row_tile.h"

namespace lanescope::kernels {

/// What the `splitk` kernel lets be traced. A warp holds 16 rows, at most four warps share a tile.
template <class T, int D, int Br, int Bc>
struct SplitkSites : MmaStages<T, D, Br, Bc, (Br < 64 ? Br / 16 : 4)> {
  using Stages = MmaStages<T, D, Br, Bc, (Br < 64 ? Br / 16 : 4)>;
  static constexpr int warps = Stages::warps, rows = Stages::rows;
  static constexpr ElementType f32 = ElementType::f32;
  static constexpr Site table[] = {
      {SiteId::q_smem, Stage::load, Space::shared, T::type, Axes::query_d, false, Br, D, 0, 0},
      {SiteId::k_smem, Stage::load, Space::shared, T::type, Axes::key_d, true, Bc, D, 0, 0},
      {SiteId::v_smem, Stage::load, Space::shared, T::type, Axes::key_d, true, Bc, D, 0, 0},
      {SiteId::s, Stage::qk, Space::registers, f32, Axes::query_key, true, Br, Bc, warps,
       Stages::Scores::count, /*unscaled=*/true},
      {SiteId::m_prev, Stage::softmax, Space::registers, f32, Axes::query, true, Br, 1, warps,
       rows},
      {SiteId::m, Stage::softmax, Space::registers, f32, Axes::query, true, Br, 1, warps, rows},
      {SiteId::alpha, Stage::softmax, Space::registers, f32, Axes::query, true, Br, 1, warps, rows},
      {SiteId::p, Stage::softmax, Space::registers, T::type, Axes::query_key, true, Br, Bc, warps,
       Stages::Weights::count * 2},
      {SiteId::l, Stage::softmax, Space::registers, f32, Axes::query, true, Br, 1, warps, rows},
      {SiteId::o, Stage::pv, Space::registers, f32, Axes::query_d, true, Br, D, warps,
       Stages::Output::count},
      {SiteId::o_partial, Stage::epilogue, Space::global, f32, Axes::query_d, false, Br, D, 0, 0},
      {SiteId::m_partial, Stage::epilogue, Space::global, f32, Axes::query, false, Br, 1, 0, 0},
      {SiteId::l_partial, Stage::epilogue, Space::global, f32, Axes::query, false, Br, 1, 0, 0},
      {SiteId::o_final, Stage::combine, Space::global, T::type, Axes::query_d, false, Br, D, 0, 0},
      {SiteId::lse, Stage::combine, Space::global, f32, Axes::query, false, Br, 1, 0, 0},
  };
  static constexpr int count = sizeof(table) / sizeof(table[0]);

  // The combine pass: 16 warps, warp w takes the rows w, w + 16, ... of a tile, a lane D / 32
  // neighbouring columns.
  static constexpr int combine_warps = 16;
  static constexpr int combine_rows = Br / combine_warps;  ///< of a warp
  static constexpr int columns = D / 32;                   ///< of a lane

  /// The element of the tile that a register stands for.
  static constexpr device::Coordinate coordinate(SiteId id, int warp, int lane, int reg) {
    if (id == SiteId::o_final) {
      return {reg / columns * combine_warps + warp, lane * columns + reg % columns};
    }
    if (id == SiteId::lse) return {reg * combine_warps + warp, 0};
    return Stages::coordinate(id, warp, lane, reg);
  }
};

/// FlashDecoding (Dao, Haziza, Massa, Sizov 2023): FlashAttention-2 over a split of the keys per
/// block, on mma.sync.m16n8k16 (kernels/mma_stages.h), whose unnormalised O, m and l a second pass
/// combines. For few queries and many keys: a tile of 16 rows holds the queries of all heads that
/// share a kv head, its one warp keeps a ring of K and V tiles in flight, and the splits fill the
/// machine.
template <Gate G, class T, int D, int Br, int Bc>
struct Splitk : SplitkSites<T, D, Br, Bc>::Stages {
  using Sites = SplitkSites<T, D, Br, Bc>;
  using Stages = typename Sites::Stages;
  using Stages::rows;
  using Stages::warps;
  using typename Stages::Output;
  using typename Stages::Rows;
  using typename Stages::Scores;
  using typename Stages::Weights;
  static constexpr Products products = Products::tensor_core;
  static constexpr int combine_threads = 32 * Sites::combine_warps;
  static constexpr int ring = warps == 1 ? 3 : 2;  ///< K/V tiles in shared memory

  struct SharedMemory {
    typename Stages::Queries q;
    typename Stages::Keys k[ring];
    typename Stages::Keys v[ring];

    /// Tells the memory checker the names of its tiles.
    template <class Visit>
    void name_tiles(Visit&& visit) {
      constexpr const char* names[][2] = {{"k[0]", "v[0]"}, {"k[1]", "v[1]"}, {"k[2]", "v[2]"}};
      visit("q", q);
      for (int i = 0; i < ring; ++i) {
        visit(names[i][0], k[i]);
        visit(names[i][1], v[i]);
      }
    }
  };

  /// Unnormalised O, m and l of the split, to global memory.
  template <class Trace>
  LANESCOPE_DEVICE static void epilogue(const Attention& a, const RowTile& tile, std::int64_t block,
                                        Output& o, Rows& m, Rows& l, const Trace& trace) {
    struct alignas(8) Pair {
      float x, y;
    };
    trace(site::o_partial, 0, o);
    trace(site::m_partial, 0, m);
    trace(site::l_partial, 0, l);
    const int lane = device::lane();
    LANESCOPE_UNROLL
    for (int r = 0; r < rows; ++r) {
      const int row = Stages::row_of(device::warp(), lane, r);
      if (tile.begin + row >= tile.rows) continue;
      const std::int64_t at = block * Br + row;
      LANESCOPE_UNROLL
      for (int nt = 0; nt < D / 8; ++nt) {
        *reinterpret_cast<Pair*>(a.partials.o + at * D + nt * 8 + lane % 4 * 2) = {
            o.at(r / 2, nt, r % 2 * 2), o.at(r / 2, nt, r % 2 * 2 + 1)};
      }
      if (lane % 4 != 0) continue;
      a.partials.m[at] = m[r];
      a.partials.l[at] = l[r];
    }
  }

  /// The first pass. block = row tile · splits + split
  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, SharedMemory& smem,
                                   const Seam<G, Sites>& seam, const Trace& trace) {
    const RowTile rows = row_tile_of<Br>(a, seam.block / a.splits);
    const Split split = split_of<Br, Bc>(a, rows, static_cast<int>(seam.block % a.splits));
    const T* q = rows_of<T, D>(a.q, rows.batch, a.heads, rows.head, a.len_q);
    const T* k = rows_of<T, D>(a.k, rows.batch, a.heads_kv, rows.head_kv, a.len_kv);
    const T* v = rows_of<T, D>(a.v, rows.batch, a.heads_kv, rows.head_kv, a.len_kv);
    const GroupMask mask{a, rows.begin};
    const auto load_tile = [&](int tile) {
      const int first_key = (split.first + tile) * Bc, slot = tile % ring;
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

    if constexpr (runs<G, Stage::qk>) Stages::load(q, rows.begin, rows.rows, smem.q);
    LANESCOPE_UNROLL
    for (int tile = 0; tile < ring - 1; ++tile) {
      if (tile < split.tiles) load_tile(tile);
      device::commit_copies();
    }
    for (int tile = 0; tile < split.tiles; ++tile) {
      device::wait_copies<ring - 2>();
      device::block_sync();  // Q, K and V of this tile are complete, those of the last one free
      if (tile + ring - 1 < split.tiles) load_tile(tile + ring - 1);
      device::commit_copies();
      const int slot = tile % ring;
      if (tile == 0) trace(site::q_smem, 0, smem.q);
      trace(site::k_smem, tile, smem.k[slot]);
      trace(site::v_smem, tile, smem.v[slot]);

      if constexpr (runs<G, Stage::qk>) {
        Stages::qk(smem.q, smem.k[slot], mask, (split.first + tile) * Bc, s);
      }
      seam.take(site::s, tile, s);
      seam.leave(site::s, tile, s);
      trace(site::s, tile, s);

      trace(site::m_prev, tile, m);
      if constexpr (runs<G, Stage::softmax>) Stages::softmax(a.scale_log2, s, m, alpha, l, p);
      seam.take(site::alpha, tile, alpha);
      seam.take(site::p, tile, p);
      seam.leave(site::m, tile, m);
      seam.leave(site::alpha, tile, alpha);
      seam.leave(site::p, tile, p);
      seam.leave(site::l, tile, l);
      trace(site::m, tile, m);
      trace(site::alpha, tile, alpha);
      trace(site::p, tile, p);
      trace(site::l, tile, l);

      if constexpr (runs<G, Stage::pv>) Stages::pv(smem.v[slot], p, alpha, o);
      seam.leave(site::o, tile, o);
      trace(site::o, tile, o);
    }
    if constexpr (runs<G, Stage::epilogue>) epilogue(a, rows, seam.block, o, m, l, trace);
  }

  /// The second pass, of row tile `block`, for each row:
  /// m = max_i m_i   w_i = 2^(m_i − m)   l = Σ_i l_i·w_i   O = Σ_i O_i·w_i / l
  template <class Trace>
  LANESCOPE_DEVICE static void combine(const Attention& a, std::int64_t block, const Trace& trace) {
    constexpr int columns = Sites::columns;
    struct alignas(4 * columns) Columns {
      float x[columns];
    };
    const RowTile tile = row_tile_of<Br>(a, block);
    const int warp = device::warp(), col = device::lane() * columns;
    device::Registers<float, Sites::combine_rows * columns> o;
    device::Registers<float, Sites::combine_rows> lse;
    o.fill(0.0f);
    lse.fill(device::minus_infinity);
    LANESCOPE_UNROLL
    for (int r = 0; r < Sites::combine_rows; ++r) {
      const int row = r * Sites::combine_warps + warp;
      if (tile.begin + row >= tile.rows) continue;
      const std::int64_t first = block * a.splits * Br + row;  // the row of split i: first + i·Br
      float m = device::minus_infinity, l = 0.0f;
      for (int i = 0; i < a.splits; ++i) m = device::max(m, a.partials.m[first + i * Br]);
      for (int i = 0; i < a.splits; ++i) {
        const std::int64_t at = first + i * Br;
        const Columns o_i = *reinterpret_cast<const Columns*>(a.partials.o + at * D + col);
        const float weight = rescale(a.partials.m[at], m);
        l = device::fma(a.partials.l[at], weight, l);
        LANESCOPE_UNROLL
        for (int c = 0; c < columns; ++c) {
          o[r * columns + c] = device::fma(o_i.x[c], weight, o[r * columns + c]);
        }
      }
      const float inverse = inverse_sum(l);
      LANESCOPE_UNROLL
      for (int c = 0; c < columns; ++c) o[r * columns + c] = o[r * columns + c] * inverse;
      lse[r] = log_sum_exp(m, l);
    }
    trace(site::o_final, 0, o);
    trace(site::lse, 0, lse);
    LANESCOPE_UNROLL
    for (int r = 0; r < Sites::combine_rows; ++r) {
      const int row = tile.begin + r * Sites::combine_warps + warp;
      if (row >= tile.rows) continue;
      const std::int64_t at =
          (static_cast<std::int64_t>(tile.batch) * a.heads + tile.head) * a.len_q + row;
      T* to = static_cast<T*>(a.o) + at * D + col;
      LANESCOPE_UNROLL
      for (int c = 0; c < columns; c += 2) {
        *reinterpret_cast<std::uint32_t*>(to + c) =
            device::pack<T>(o[r * columns + c], o[r * columns + c + 1]);
      }
      if (device::lane() == 0) a.lse[at] = lse[r];
    }
  }
};

}  // namespace lanescope::kernels

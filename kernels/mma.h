#pragma once

#include "debug/slots.h"
#include "gates/seam.h"
#include "kernels/attention.h"
#include "kernels/mma_stages.h"
#include "kernels/online_softmax.h"

namespace lanescope::kernels {

/// What the `mma` kernel lets be traced.
template <class T, int D, int Br, int Bc>
struct MmaSites : MmaStages<T, D, Br, Bc, 4> {
  using Stages = MmaStages<T, D, Br, Bc, 4>;
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
      {SiteId::o_final, Stage::epilogue, Space::global, T::type, Axes::query_d, false, Br, D, 0, 0},
      {SiteId::lse, Stage::epilogue, Space::global, f32, Axes::query, false, Br, 1, 0, 0},
  };
  static constexpr int count = sizeof(table) / sizeof(table[0]);
};

/// FlashAttention-2 on mma.sync.m16n8k16 (kernels/mma_stages.h), four warps over the query rows, K
/// and V double-buffered.
template <Gate G, class T, int D, int Br, int Bc>
struct Mma : MmaStages<T, D, Br, Bc, 4> {
  using Sites = MmaSites<T, D, Br, Bc>;
  using Stages = MmaStages<T, D, Br, Bc, 4>;
  using Stages::rows;
  using typename Stages::Output;
  using typename Stages::Rows;
  using typename Stages::Scores;
  using typename Stages::Weights;
  static constexpr Products products = Products::tensor_core;

  struct SharedMemory {
    typename Stages::Queries q;
    typename Stages::Keys k[2];
    typename Stages::Keys v[2];

    /// Tells the memory checker the names of its tiles.
    template <class Visit>
    void name_tiles(Visit&& visit) {
      visit("q", q);
      visit("k[0]", k[0]);
      visit("k[1]", k[1]);
      visit("v[0]", v[0]);
      visit("v[1]", v[1]);
    }
  };

  /// Row register r of O, in the element type, to the row at `to` in global memory, where `exists`.
  /// The quad of a row holds its columns in pairs, by turns: of four n8 tiles, the lanes exchange
  /// them so that each stores the eight columns of one.
  LANESCOPE_DEVICE static void store_row(const Output& o, int r, bool exists, T* to) {
    const int lane = device::lane();
    LANESCOPE_UNROLL
    for (int nt = 0; nt < D / 8; nt += 4) {
      Chunk chunk;
      LANESCOPE_UNROLL
      for (int j = 0; j < 4; ++j) {
        chunk.pairs[j] =
            device::pack<T>(o.at(r / 2, nt + j, r % 2 * 2), o.at(r / 2, nt + j, r % 2 * 2 + 1));
      }
      transpose_quad(lane, chunk.pairs);
      if (exists) *reinterpret_cast<Chunk*>(to + (nt + lane % 4) * 8) = chunk;
    }
  }

  /// O / l and the log-sum-exp, to global memory.
  template <class Trace>
  LANESCOPE_DEVICE static void epilogue(const Attention& a, const Work& work, Output& o,
                                        const Rows& m, const Rows& l, const Trace& trace) {
    const int lane = device::lane();
    Rows inverse, lse;
    LANESCOPE_UNROLL
    for (int r = 0; r < rows; ++r) {
      inverse[r] = inverse_sum(l[r]);
      lse[r] = log_sum_exp(m[r], l[r]);
    }
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; ++i) {
      o[i] = o[i] * inverse[Stages::row_register(i)];
    }
    trace(site::o_final, 0, o);
    trace(site::lse, 0, lse);
    LANESCOPE_UNROLL
    for (int r = 0; r < rows; ++r) {
      const int query = work.q_begin + Stages::row_of(device::warp(), lane, r);
      const bool exists = query < a.len_q;
      const std::int64_t row = row_index(a, work, query);
      store_row(o, r, exists, static_cast<T*>(a.o) + row * D);
      if (exists && lane % 4 == 0) a.lse[row] = lse[r];
    }
  }

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, SharedMemory& smem,
                                   const Seam<G, Sites>& seam, const Trace& trace) {
    const Work work = work_of<Br, Bc>(a, seam.block);
    const T* q = rows_of<T, D>(a.q, work.batch, a.heads, work.head, a.len_q);
    const T* k = rows_of<T, D>(a.k, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const T* v = rows_of<T, D>(a.v, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const Mask mask{a, work.q_begin};
    const auto load_tile = [&](int tile) {
      if constexpr (runs<G, Stage::qk>) Stages::load(k, tile * Bc, a.len_kv, smem.k[tile % 2]);
      if constexpr (runs<G, Stage::pv>) Stages::load(v, tile * Bc, a.len_kv, smem.v[tile % 2]);
    };
    Scores s;
    Weights p;
    Rows m, alpha, l;
    Output o;
    m.fill(device::minus_infinity);
    l.fill(0.0f);
    o.fill(0.0f);

    if constexpr (runs<G, Stage::qk>) Stages::load(q, work.q_begin, a.len_q, smem.q);
    if (work.tiles > 0) load_tile(0);
    device::commit_copies();
    for (int tile = 0; tile < work.tiles; ++tile) {
      device::wait_copies<0>();
      device::block_sync();  // Q, K and V of this tile are complete, those of the last one free
      if (tile + 1 < work.tiles) load_tile(tile + 1);
      device::commit_copies();
      if (tile == 0) trace(site::q_smem, 0, smem.q);
      trace(site::k_smem, tile, smem.k[tile % 2]);
      trace(site::v_smem, tile, smem.v[tile % 2]);

      if constexpr (runs<G, Stage::qk>) {
        Stages::qk(smem.q, smem.k[tile % 2], mask, tile * Bc, s);
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

      if constexpr (runs<G, Stage::pv>) Stages::pv(smem.v[tile % 2], p, alpha, o);
      seam.leave(site::o, tile, o);
      trace(site::o, tile, o);
    }
    if constexpr (runs<G, Stage::epilogue>) epilogue(a, work, o, m, l, trace);
  }

 private:
  struct alignas(16) Chunk {
    std::uint32_t pairs[4];
  };

  /// x[j] of the quad's lane i ← x[i] of its lane j.
  LANESCOPE_DEVICE static void transpose_quad(int lane, std::uint32_t (&x)[4]) {
    LANESCOPE_UNROLL
    for (int step = 1; step < 4; step *= 2) {
      LANESCOPE_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (i & step) continue;
        const bool is_low = (lane & step) == 0;
        const std::uint32_t got = device::shfl_xor(is_low ? x[i + step] : x[i], step);
        (is_low ? x[i + step] : x[i]) = got;
      }
    }
  }
};

}  // namespace lanescope::kernels

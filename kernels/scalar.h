#pragma once

#include "kernels/device/tiles.h"
#include "kernels/parts/arguments.h"
#include "kernels/parts/load_tile.h"
#include "kernels/parts/online_softmax.h"
#include "kernels/trace/seam.h"
#include "kernels/trace/site_table.h"

namespace lanescope::kernels {

/// What the `scalar` kernel lets be traced. A thread owns a query row: its row of s and p in shared
/// memory, and its m, alpha, l and o in registers.
template <class T, int D, int Br, int Bc>
struct ScalarSites {
  static constexpr int threads = Br;
  using RowValue = device::Registers<float, 1>;
  using Output = device::Registers<float, D>;

  static constexpr auto table = site_table<D, Br, Bc, threads>(
      shared<T>(SiteId::q_smem), shared<T>(SiteId::k_smem), shared<T>(SiteId::v_smem),
      shared<float>(SiteId::s), registers<RowValue>(SiteId::m_prev), registers<RowValue>(SiteId::m),
      registers<RowValue>(SiteId::alpha), shared<float>(SiteId::p), registers<RowValue>(SiteId::l),
      registers<Output>(SiteId::o), global<T>(SiteId::o_final), global<float>(SiteId::lse));

  /// The element of the tile that a register stands for.
  static constexpr device::Coordinate coordinate(SiteId, int warp, int lane, int reg) {
    return {warp * 32 + lane, reg};
  }
  /// The thread that wrote an element of shared memory.
  static constexpr int owner(SiteId id, int row, int col) {
    return id == SiteId::s || id == SiteId::p ? row : (row * D + col) % threads;
  }
};

/// FlashAttention-1 the plain way: one thread per query row, the tiles of Q, K, V and the scores in
/// shared memory, fp32 arithmetic.
template <Gate G, class T, int D, int Br, int Bc>
struct Scalar {
  using Sites = ScalarSites<T, D, Br, Bc>;
  using Scores = device::RowOfTile<float, Bc>;
  using RowValue = typename Sites::RowValue;
  using Output = typename Sites::Output;
  static constexpr int threads = Sites::threads;
  static constexpr Products products = Products::fp32_fma;

  struct SharedMemory {
    device::Tile<T, Br, D, 2> q;
    device::Tile<T, Bc, D> k;
    device::Tile<T, Bc, D> v;
    device::Tile<float, Br, Bc, 1> s;  // scores, then P in their place

    /// Tells the memory checker the names of its tiles.
    template <class Visit>
    void name_tiles(Visit&& visit) {
      visit("q", q);
      visit("k", k);
      visit("v", v);
      visit("s", s);
    }
  };

  /// S = Q·Kᵀ · scale · log2(e), −inf where the row does not see the key.
  LANESCOPE_DEVICE static void qk(const Attention& a, const SharedMemory& smem, int query,
                                  int first_key, const Scores& s) {
    for (int j = 0; j < Bc; ++j) {
      float dot = 0.0f;
      LANESCOPE_UNROLL
      for (int d = 0; d < D; ++d) {
        dot = device::fma(device::widen(smem.q.at(s.row, d)), device::widen(smem.k.at(j, d)), dot);
      }
      s.x[j] = visible(a, query, first_key + j) ? dot * a.scale_log2 : device::minus_infinity;
    }
  }

  /// m = max(m_prev, max_j S_j)   alpha = 2^(m_prev − m)   P_j = 2^(S_j − m)   l = l·alpha + Σ P_j
  LANESCOPE_DEVICE static void softmax(const Scores& s, RowValue& m, RowValue& alpha, RowValue& l) {
    const float m_prev = m[0];
    for (int j = 0; j < Bc; ++j) m[0] = device::max(m[0], s.x[j]);
    alpha[0] = rescale(m_prev, m[0]);
    const float shift = shift_of(m[0]);
    float sum = 0.0f;
    for (int j = 0; j < Bc; ++j) {
      s.x[j] = device::ex2(s.x[j] - shift);
      sum = sum + s.x[j];
    }
    l[0] = device::fma(l[0], alpha[0], sum);
  }

  /// O = O·alpha + P·V
  LANESCOPE_DEVICE static void pv(const SharedMemory& smem, const Scores& p, const RowValue& alpha,
                                  Output& o) {
    LANESCOPE_UNROLL
    for (int d = 0; d < D; ++d) o[d] = o[d] * alpha[0];
    for (int j = 0; j < Bc; ++j) {
      LANESCOPE_UNROLL
      for (int d = 0; d < D; ++d) {
        o[d] = device::fma(p.x[j], device::widen(smem.v.at(j, d)), o[d]);
      }
    }
  }

  /// O / l and the log-sum-exp, to global memory.
  template <class Seam>
  LANESCOPE_DEVICE static void epilogue(const Attention& a, const Work& work, int query, Output& o,
                                        const RowValue& m, const RowValue& l, const Seam& seam) {
    const float inverse = inverse_sum(l[0]);
    LANESCOPE_UNROLL
    for (int d = 0; d < D; ++d) o[d] = o[d] * inverse;
    RowValue lse{{log_sum_exp(m[0], l[0])}};
    seam(0, site::o_final(o), site::lse(lse));
    if (query >= a.len_q) return;
    T* row = static_cast<T*>(a.o) + row_index(a, work, query) * D;
    LANESCOPE_UNROLL
    for (int d = 0; d < D; ++d) row[d] = device::narrow<T>(o[d]);
    a.lse[row_index(a, work, query)] = lse[0];
  }

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, SharedMemory& smem,
                                   const Seam<G, Sites, Trace>& seam) {
    const Work work = work_of<Br, Bc>(a, seam.block);
    const int row = device::thread(), query = work.q_begin + row;
    const T* q = rows_of<T, D>(a.q, work.batch, a.heads, work.head, a.len_q);
    const T* k = rows_of<T, D>(a.k, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const T* v = rows_of<T, D>(a.v, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const Scores s{row, &smem.s.at(row, 0)};
    RowValue m{{device::minus_infinity}}, alpha{{0.0f}}, l{{0.0f}};
    Output o{};

    if constexpr (runs<G, Stage::qk>) {
      load_tile<threads, D>(q, work.q_begin, a.len_q, smem.q);
      device::block_sync();  // Q is complete
    }
    seam(0, site::q_smem(smem.q));

    for (int tile = 0; tile < work.tiles; ++tile) {
      if constexpr (runs<G, Stage::qk>) load_tile<threads, D>(k, tile * Bc, a.len_kv, smem.k);
      if constexpr (runs<G, Stage::pv>) load_tile<threads, D>(v, tile * Bc, a.len_kv, smem.v);
      device::block_sync();  // K and V are complete
      seam(tile, site::k_smem(smem.k), site::v_smem(smem.v));

      if constexpr (runs<G, Stage::qk>) qk(a, smem, query, tile * Bc, s);
      seam(tile, site::s(s), site::m_prev(m));

      if constexpr (runs<G, Stage::softmax>) softmax(s, m, alpha, l);
      seam(tile, site::m(m), site::alpha(alpha), site::p(s), site::l(l));

      if constexpr (runs<G, Stage::pv>) pv(smem, s, alpha, o);
      seam(tile, site::o(o));
      device::block_sync();  // nobody reads K and V any more
    }
    if constexpr (runs<G, Stage::epilogue>) epilogue(a, work, query, o, m, l, seam);
  }
};

}  // namespace lanescope::kernels

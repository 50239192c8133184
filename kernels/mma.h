#pragma once

#include "debug/slots.h"
#include "gates/seam.h"
#include "kernels/attention.h"
#include "kernels/device/tiles.h"
#include "kernels/online_softmax.h"

namespace lanescope::kernels {

/// What the `mma` kernel lets be traced. Warp w owns the query rows [w·16·Mt, (w+1)·16·Mt) of the
/// block; S, P and O are fragments, m, alpha and l are replicated over the four lanes of a row.
template <class T, int D, int Br, int Bc>
struct MmaSites {
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int Mt = Br / (16 * warps);  ///< m16 tiles of a warp
  static constexpr int rows = 2 * Mt;           ///< query rows of a lane
  using Scores = device::Accumulator<Mt, Bc / 8>;
  using Weights = device::LeftOperand<Mt, Bc / 16>;
  using Output = device::Accumulator<Mt, D / 8>;
  using Rows = device::Registers<float, rows>;

  static constexpr ElementType f32 = ElementType::f32;
  static constexpr Site table[] = {
      {SiteId::q_smem, Stage::load, Space::shared, T::type, Axes::query_d, false, Br, D, 0, 0},
      {SiteId::k_smem, Stage::load, Space::shared, T::type, Axes::key_d, true, Bc, D, 0, 0},
      {SiteId::v_smem, Stage::load, Space::shared, T::type, Axes::key_d, true, Bc, D, 0, 0},
      {SiteId::s, Stage::qk, Space::registers, f32, Axes::query_key, true, Br, Bc, warps,
       Scores::count},
      {SiteId::m_prev, Stage::softmax, Space::registers, f32, Axes::query, true, Br, 1, warps,
       rows},
      {SiteId::m, Stage::softmax, Space::registers, f32, Axes::query, true, Br, 1, warps, rows},
      {SiteId::alpha, Stage::softmax, Space::registers, f32, Axes::query, true, Br, 1, warps, rows},
      {SiteId::p, Stage::softmax, Space::registers, T::type, Axes::query_key, true, Br, Bc, warps,
       Weights::count * 2},
      {SiteId::l, Stage::softmax, Space::registers, f32, Axes::query, true, Br, 1, warps, rows},
      {SiteId::o, Stage::pv, Space::registers, f32, Axes::query_d, true, Br, D, warps,
       Output::count},
      {SiteId::o_final, Stage::epilogue, Space::global, T::type, Axes::query_d, false, Br, D, 0, 0},
      {SiteId::lse, Stage::epilogue, Space::global, f32, Axes::query, false, Br, 1, 0, 0},
  };
  static constexpr int count = sizeof(table) / sizeof(table[0]);

  /// The warp's row that row register r of a lane stands for.
  static constexpr int row_of(int lane, int r) { return r / 2 * 16 + r % 2 * 8 + lane / 4; }

  /// The element of the tile that a register stands for.
  static constexpr device::Coordinate coordinate(SiteId id, int warp, int lane, int reg) {
    device::Coordinate c = id == SiteId::s   ? Scores::coordinate(lane, reg)
                           : id == SiteId::p ? Weights::coordinate(lane, reg)
                           : id == SiteId::o || id == SiteId::o_final
                               ? Output::coordinate(lane, reg)
                               : device::Coordinate{row_of(lane, reg), 0};
    c.row += warp * 16 * Mt;
    return c;
  }
  /// The thread that wrote an element of shared memory, in chunks of 8.
  static constexpr int owner(SiteId, int row, int col) { return (row * D + col) / 8 % threads; }
};

/// FlashAttention-2 on mma.sync.m16n8k16: K and V double-buffered through cp.async into swizzled
/// shared memory, S and P in registers only.
template <Gate G, class T, int D, int Br, int Bc>
struct Mma {
  using Sites = MmaSites<T, D, Br, Bc>;
  using Scores = typename Sites::Scores;
  using Weights = typename Sites::Weights;
  using Output = typename Sites::Output;
  using Rows = typename Sites::Rows;
  static constexpr int threads = Sites::threads;
  static constexpr Products products = Products::tensor_core;
  static constexpr int Mt = Sites::Mt;
  static_assert(Br % 64 == 0 && Bc % 16 == 0 && D % 64 == 0);

  struct SharedMemory {
    device::SwizzledTile<T, Br, D> q;
    device::SwizzledTile<T, Bc, D> k[2];
    device::SwizzledTile<T, Bc, D> v[2];

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

  /// tile ← rows [first, first + Rows) of a head, zeros from row `len` on. Asynchronous. A thread
  /// copies the same chunk of every threads / (D / 8)-th row.
  template <class TileType>
  LANESCOPE_DEVICE static void load(const T* rows, int first, int len, TileType& tile) {
    constexpr int row_chunks = D / 8, stride = threads / row_chunks;
    const int row = device::thread() / row_chunks, col = device::thread() % row_chunks * 8;
    const T* from = rows + static_cast<std::int64_t>(first + row) * D + col;
    LANESCOPE_UNROLL
    for (int i = 0; i < TileType::rows; i += stride) {
      device::copy_async_16(tile.chunk_at(i + row, col), from + i * D, first + i + row < len);
    }
  }

  /// S = Q·Kᵀ · scale · log2(e), −inf where the row does not see the key.
  LANESCOPE_DEVICE static void qk(const Attention& a, const device::SwizzledTile<T, Br, D>& q,
                                  const device::SwizzledTile<T, Bc, D>& k, int first_query,
                                  int first_key, Scores& s) {
    const int lane = device::lane();
    const int warp_row = device::warp() * 16 * Mt;
    s.fill(0.0f);
    LANESCOPE_UNROLL
    for (int d = 0; d < D; d += 16) {
      std::uint32_t q_rmem[Mt][4];  // A: 16 queries × 16 d
      LANESCOPE_UNROLL
      for (int mt = 0; mt < Mt; ++mt) {
        device::ldmatrix_x4(q_rmem[mt],
                            q.chunk_at(warp_row + mt * 16 + lane % 16, d + lane / 16 * 8));
      }
      LANESCOPE_UNROLL
      for (int n = 0; n < Bc / 16; ++n) {
        std::uint32_t k_rmem[4];  // B: 16 d × two times 8 keys
        device::ldmatrix_x4(k_rmem,
                            k.chunk_at(n * 16 + lane / 16 * 8 + lane % 8, d + lane / 8 % 2 * 8));
        LANESCOPE_UNROLL
        for (int mt = 0; mt < Mt; ++mt) {
          device::mma_m16n8k16<T>(s.fragment(mt, 2 * n), q_rmem[mt], k_rmem[0], k_rmem[1]);
          device::mma_m16n8k16<T>(s.fragment(mt, 2 * n + 1), q_rmem[mt], k_rmem[2], k_rmem[3]);
        }
      }
    }
    LANESCOPE_UNROLL
    for (int i = 0; i < Scores::count; ++i) s[i] = s[i] * a.scale_log2;
    // A tile that every row of the warp sees whole needs no mask; the branch is the warp's own.
    if (visible(a, first_query + warp_row, first_key + Bc - 1)) return;
    LANESCOPE_UNROLL
    for (int i = 0; i < Scores::count; ++i) {
      const device::Coordinate c = Scores::coordinate(lane, i);
      if (!visible(a, first_query + warp_row + c.row, first_key + c.col)) {
        s[i] = device::minus_infinity;
      }
    }
  }

  /// m = max(m_prev, max_j S_j)   alpha = 2^(m_prev − m)   P_j = 2^(S_j − m)   l = l·alpha + Σ P_j
  /// A row's scores lie in the four lanes of a quad, which agree on m, alpha and l.
  LANESCOPE_DEVICE static void softmax(Scores& s, Rows& m, Rows& alpha, Rows& l, Weights& p) {
    LANESCOPE_UNROLL
    for (int r = 0; r < Sites::rows; ++r) {
      const int mt = r / 2, half = r % 2 * 2;
      const float m_prev = m[r];
      LANESCOPE_UNROLL
      for (int nt = 0; nt < Bc / 8; ++nt) {
        m[r] = device::max(m[r], device::max(s.at(mt, nt, half), s.at(mt, nt, half + 1)));
      }
      m[r] = device::max(m[r], device::shfl_xor(m[r], 1));
      m[r] = device::max(m[r], device::shfl_xor(m[r], 2));
      alpha[r] = rescale(m_prev, m[r]);
      const float shift = shift_of(m[r]);
      float sum = 0.0f;
      LANESCOPE_UNROLL
      for (int nt = 0; nt < Bc / 8; ++nt) {
        LANESCOPE_UNROLL
        for (int i = half; i < half + 2; ++i) {
          s.at(mt, nt, i) = device::ex2(s.at(mt, nt, i) - shift);
          sum = sum + s.at(mt, nt, i);
        }
        // Two accumulator fragments side by side are one A fragment.
        p.at(mt, nt / 2, nt % 2 * 2 + r % 2) =
            device::pack<T>(s.at(mt, nt, half), s.at(mt, nt, half + 1));
      }
      sum = sum + device::shfl_xor(sum, 1);
      sum = sum + device::shfl_xor(sum, 2);
      l[r] = device::fma(l[r], alpha[r], sum);
    }
  }

  /// O = O·alpha + P·V
  LANESCOPE_DEVICE static void pv(const device::SwizzledTile<T, Bc, D>& v, const Weights& p,
                                  const Rows& alpha, Output& o) {
    const int lane = device::lane();
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; ++i) {
      o[i] = o[i] * alpha[i / 4 / (D / 8) * 2 + i % 4 / 2];
    }
    LANESCOPE_UNROLL
    for (int kt = 0; kt < Bc / 16; ++kt) {
      LANESCOPE_UNROLL
      for (int d = 0; d < D; d += 16) {
        std::uint32_t v_rmem[4];  // B: 16 keys × two times 8 d
        device::ldmatrix_x4_trans(v_rmem, v.chunk_at(kt * 16 + lane % 16, d + lane / 16 * 8));
        LANESCOPE_UNROLL
        for (int mt = 0; mt < Mt; ++mt) {
          device::mma_m16n8k16<T>(o.fragment(mt, d / 8), p.fragment(mt, kt), v_rmem[0], v_rmem[1]);
          device::mma_m16n8k16<T>(o.fragment(mt, d / 8 + 1), p.fragment(mt, kt), v_rmem[2],
                                  v_rmem[3]);
        }
      }
    }
  }

  /// O / l and the log-sum-exp, to global memory.
  template <class Trace>
  LANESCOPE_DEVICE static void epilogue(const Attention& a, const Work& work, Output& o,
                                        const Rows& m, const Rows& l, const Trace& trace) {
    const int lane = device::lane();
    Rows inverse, lse;
    LANESCOPE_UNROLL
    for (int r = 0; r < Sites::rows; ++r) {
      inverse[r] = inverse_sum(l[r]);
      lse[r] = log_sum_exp(m[r], l[r]);
    }
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; ++i) {
      o[i] = o[i] * inverse[i / 4 / (D / 8) * 2 + i % 4 / 2];
    }
    trace(site::o_final, 0, o);
    trace(site::lse, 0, lse);
    LANESCOPE_UNROLL
    for (int r = 0; r < Sites::rows; ++r) {
      const int query = work.q_begin + device::warp() * 16 * Mt + Sites::row_of(lane, r);
      if (query >= a.len_q) continue;
      T* row = static_cast<T*>(a.o) + row_index(a, work, query) * D;
      LANESCOPE_UNROLL
      for (int nt = 0; nt < D / 8; ++nt) {
        const std::uint32_t pair =
            device::pack<T>(o.at(r / 2, nt, r % 2 * 2), o.at(r / 2, nt, r % 2 * 2 + 1));
        *reinterpret_cast<std::uint32_t*>(row + nt * 8 + lane % 4 * 2) = pair;
      }
      if (lane % 4 == 0) a.lse[row_index(a, work, query)] = lse[r];
    }
  }

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, SharedMemory& smem,
                                   const Seam<G, Sites>& seam, const Trace& trace) {
    const Work work = work_of<Br, Bc>(a, seam.block);
    const T* q = rows_of<T, D>(a.q, work.batch, a.heads, work.head, a.len_q);
    const T* k = rows_of<T, D>(a.k, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const T* v = rows_of<T, D>(a.v, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const auto load_tile = [&](int tile) {
      if constexpr (runs<G, Stage::qk>) load(k, tile * Bc, a.len_kv, smem.k[tile % 2]);
      if constexpr (runs<G, Stage::pv>) load(v, tile * Bc, a.len_kv, smem.v[tile % 2]);
    };
    Scores s;
    Weights p;
    Rows m, alpha, l;
    Output o;
    m.fill(device::minus_infinity);
    l.fill(0.0f);
    o.fill(0.0f);

    if constexpr (runs<G, Stage::qk>) load(q, work.q_begin, a.len_q, smem.q);
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

      if constexpr (runs<G, Stage::qk>) qk(a, smem.q, smem.k[tile % 2], work.q_begin, tile * Bc, s);
      seam.take(site::s, tile, s);
      seam.leave(site::s, tile, s);
      trace(site::s, tile, s);

      trace(site::m_prev, tile, m);
      if constexpr (runs<G, Stage::softmax>) softmax(s, m, alpha, l, p);
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

      if constexpr (runs<G, Stage::pv>) pv(smem.v[tile % 2], p, alpha, o);
      seam.leave(site::o, tile, o);
      trace(site::o, tile, o);
    }
    if constexpr (runs<G, Stage::epilogue>) epilogue(a, work, o, m, l, trace);
  }
};

}  // namespace lanescope::kernels

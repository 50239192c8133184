#pragma once

#include "kernels/device/tiles.h"
#include "kernels/parts/arguments.h"
#include "kernels/parts/online_softmax.h"
#include "kernels/parts/scaled_inputs.h"
#include "kernels/parts/tile_in_flight.h"
#include "kernels/trace/seam.h"
#include "kernels/trace/site_table.h"

namespace lanescope::kernels {

/// What the `wmma_registers` kernel lets be traced. Warp w owns the query rows [16·w, 16·w + 16) of
/// the block; S and O are accumulator fragments, m, alpha and l are replicated over the four lanes
/// of a row, P lies in shared memory.
template <class Input, int D, int Br, int Bc>
struct WmmaRegistersSites {
  using T = device::OperandType<Input>;
  static constexpr int warps = Br / 16;
  static constexpr int threads = 32 * warps;
  using Scores = device::WmmaAccumulators<Bc / 16>;
  using Output = device::WmmaAccumulators<D / 16>;
  using Rows = device::Registers<float, 2>;

  static constexpr auto table = site_table<D, Br, Bc, threads>(
      shared<T>(SiteId::q_smem), shared<T>(SiteId::k_smem), shared<T>(SiteId::v_smem),
      registers<Scores>(SiteId::s), registers<Rows>(SiteId::m_prev), registers<Rows>(SiteId::m),
      registers<Rows>(SiteId::alpha), shared<T>(SiteId::p), registers<Rows>(SiteId::l),
      registers<Output>(SiteId::o), global<T>(SiteId::o_final), global<float>(SiteId::lse));

  /// The row register that accumulator element i belongs to.
  static constexpr int row_register(int i) { return i / 2 % 2; }
  /// The warp's row that row register r of a lane stands for.
  static constexpr int row_of(int lane, int r) { return r * 8 + lane / 4; }

  /// The element of the tile that a register stands for.
  static constexpr device::Coordinate coordinate(SiteId id, int warp, int lane, int reg) {
    device::Coordinate c = id == SiteId::s ? Scores::coordinate(lane, reg)
                           : id == SiteId::o || id == SiteId::o_final
                               ? Output::coordinate(lane, reg)
                               : device::Coordinate{row_of(lane, reg), 0};
    c.row += warp * 16;
    return c;
  }
  /// The thread that wrote an element of shared memory.
  static constexpr int owner(SiteId id, int row, int col) {
    return id == SiteId::p ? row / 16 * 32 + device::lane_of_m16n16(row, col)
           : id == SiteId::k_smem
               ? TileInFlight<threads, Input, device::TransposedTile<T, Bc, D>>::owner(row, col)
               : TileInFlight<threads, Input, device::Tile<T, Bc, D>>::owner(row, col);
  }
};

/// FlashAttention-2 on nvcuda::wmma with the softmax in the accumulator registers, by the map of
/// their elements; P passes through shared memory to become a left operand. The next K and V are
/// fetched while a tile is worked on; while they are stored, K is transposed and inputs of 8 bits
/// become f16. The scales of those enter with the factors of S and of the output, so that O counts
/// in units of V's scale until then.
template <Gate G, class Input, int D, int Br, int Bc>
struct WmmaRegisters {
  using T = device::OperandType<Input>;  ///< of the tiles, P and the output
  using Attention = AttentionOf<Input>;
  using Sites = WmmaRegistersSites<Input, D, Br, Bc>;
  using Scores = typename Sites::Scores;
  using Output = typename Sites::Output;
  using Rows = typename Sites::Rows;
  static constexpr int threads = Sites::threads;
  static constexpr Products products = Products::tensor_core;
  static_assert(Br % 16 == 0 && Bc % 16 == 0 && D % 16 == 0);

  /// Rows are padded by 16 bytes, so that the rows that a matrix load reads together meet different
  /// banks.
  using Queries = device::Tile<T, Br, D, 8>;
  using Keys = device::TransposedTile<T, Bc, D, 8>;  ///< [d][key]
  using Values = device::Tile<T, Bc, D, 8>;
  using Weights = device::Tile<T, Br, Bc, 8>;
  struct SharedMemory {
    alignas(32) Queries q;
    alignas(32) Keys k;
    alignas(32) Values v;
    alignas(32) Weights p;

    /// Tells the memory checker the names of its tiles.
    template <class Visit>
    void name_tiles(Visit&& visit) {
      visit("q", q);
      visit("k", k);
      visit("v", v);
      visit("p", p);
    }
  };

  /// S = Q·Kᵀ · scale · log2(e), −inf where the row does not see the key.
  template <class Work>
  LANESCOPE_DEVICE static void qk(const Attention& a, const Work& work, const Queries& q_smem,
                                  const Keys& k_smem, int first_key, Scores& s) {
    const int lane = device::lane();
    const int warp_row = device::warp() * 16;
    s.fill(0.0f);
    LANESCOPE_UNROLL
    for (int d = 0; d < D; d += 16) {
      device::WmmaLeft<T, device::Major::row> q;  // 16 queries × 16 d
      device::load_matrix_sync(q, &q_smem.at(warp_row, d), q_smem.stride);
      LANESCOPE_UNROLL
      for (int n = 0; n < Bc / 16; ++n) {
        device::WmmaRight<T, device::Major::row> k;  // 16 d × 16 keys
        device::load_matrix_sync(k, &k_smem.at(n * 16, d), k_smem.stride);
        device::mma_sync(s.fragment(n), q, k);
      }
    }
    LANESCOPE_UNROLL
    for (int i = 0; i < Scores::count; ++i) {
      const device::Coordinate c = Scores::coordinate(lane, i);
      const bool seen = visible(a, work.q_begin + warp_row + c.row, first_key + c.col);
      s[i] = seen ? s[i] * score_factor(a, work) : device::minus_infinity;
    }
  }

  /// m = max(m_prev, max_j S_j)   alpha = 2^(m_prev − m)   P_j = 2^(S_j − m)   l = l·alpha + Σ P_j
  /// A row's scores lie in the four lanes of a quad, which agree on m, alpha and l.
  LANESCOPE_DEVICE static void softmax(const Scores& s, Rows& m, Rows& alpha, Rows& l, Weights& p) {
    const int lane = device::lane();
    const int warp_row = device::warp() * 16;
    const Rows m_prev = m;
    Rows sum;
    sum.fill(0.0f);
    LANESCOPE_UNROLL
    for (int i = 0; i < Scores::count; ++i) {
      const int r = Sites::row_register(i);
      m[r] = device::max(m[r], s[i]);
    }
    LANESCOPE_UNROLL
    for (int r = 0; r < Rows::count; ++r) {
      m[r] = device::max(m[r], device::shfl_xor(m[r], 1));
      m[r] = device::max(m[r], device::shfl_xor(m[r], 2));
      alpha[r] = rescale(m_prev[r], m[r]);
    }
    LANESCOPE_UNROLL
    for (int i = 0; i < Scores::count; ++i) {
      const int r = Sites::row_register(i);
      const device::Coordinate c = Scores::coordinate(lane, i);
      const float weight = device::ex2(s[i] - shift_of(m[r]));
      sum[r] = sum[r] + weight;
      p.at(warp_row + c.row, c.col) = device::narrow<T>(weight);
    }
    LANESCOPE_UNROLL
    for (int r = 0; r < Rows::count; ++r) {
      sum[r] = sum[r] + device::shfl_xor(sum[r], 1);
      sum[r] = sum[r] + device::shfl_xor(sum[r], 2);
      l[r] = device::fma(l[r], alpha[r], sum[r]);
    }
  }

  /// O = O·alpha + P·V
  LANESCOPE_DEVICE static void pv(const Values& v_smem, const Weights& p_smem, const Rows& alpha,
                                  Output& o) {
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; ++i) o[i] = o[i] * alpha[Sites::row_register(i)];
    LANESCOPE_UNROLL
    for (int key = 0; key < Bc; key += 16) {
      device::WmmaLeft<T, device::Major::row> p;  // 16 queries × 16 keys
      device::load_matrix_sync(p, &p_smem.at(device::warp() * 16, key), p_smem.stride);
      LANESCOPE_UNROLL
      for (int n = 0; n < D / 16; ++n) {
        device::WmmaRight<T, device::Major::row> v;  // 16 keys × 16 d
        device::load_matrix_sync(v, &v_smem.at(key, n * 16), v_smem.stride);
        device::mma_sync(o.fragment(n), p, v);
      }
    }
  }

  /// O / l, in V's scale, and the log-sum-exp, to global memory.
  template <class Work, class Seam>
  LANESCOPE_DEVICE static void epilogue(const Attention& a, const Work& work, Output& o,
                                        const Rows& m, const Rows& l, const Seam& seam) {
    const int lane = device::lane();
    const int first_query = work.q_begin + device::warp() * 16;
    Rows inverse, lse;
    LANESCOPE_UNROLL
    for (int r = 0; r < Rows::count; ++r) {
      inverse[r] = inverse_sum(l[r]);
      apply_scale_of_v(work, inverse[r]);
      lse[r] = log_sum_exp(m[r], l[r]);
    }
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; ++i) o[i] = o[i] * inverse[Sites::row_register(i)];
    seam(0, site::o_final(o), site::lse(lse));
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; i += 2) {  // elements i and i + 1 are neighbours in a row
      const device::Coordinate c = Output::coordinate(lane, i);
      const int query = first_query + c.row;
      T* to = static_cast<T*>(a.o) + row_index(a, work, query) * D + c.col;
      const std::uint32_t pair = device::pack<T>(o[i], o[i + 1]);
      if (query < a.len_q) *reinterpret_cast<std::uint32_t*>(to) = pair;
    }
    LANESCOPE_UNROLL
    for (int r = 0; r < Rows::count; ++r) {
      const int query = first_query + Sites::row_of(lane, r);
      if (lane % 4 == 0 && query < a.len_q) a.lse[row_index(a, work, query)] = lse[r];
    }
  }

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, SharedMemory& smem,
                                   const Seam<G, Sites, Trace>& seam) {
    const auto work = work_of<Br, Bc>(a, seam.block);
    const Input* q = rows_of<Input, D>(a.q, work.batch, a.heads, work.head, a.len_q);
    const Input* k = rows_of<Input, D>(a.k, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const Input* v = rows_of<Input, D>(a.v, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    TileInFlight<threads, Input, Queries> q_rmem;
    TileInFlight<threads, Input, Keys> k_rmem;
    TileInFlight<threads, Input, Values> v_rmem;
    const auto fetch = [&](int tile) {
      if constexpr (runs<G, Stage::qk>) k_rmem.fetch(k, tile * Bc, a.len_kv);
      if constexpr (runs<G, Stage::pv>) v_rmem.fetch(v, tile * Bc, a.len_kv);
    };
    Scores s;
    Rows m, alpha, l;
    Output o;
    m.fill(device::minus_infinity);
    l.fill(0.0f);
    o.fill(0.0f);

    if (work.tiles > 0) fetch(0);
    if constexpr (runs<G, Stage::qk>) {
      q_rmem.fetch(q, work.q_begin, a.len_q);
      q_rmem.store(smem.q);
    }
    device::block_sync();  // Q is complete
    seam(0, site::q_smem(smem.q));

    for (int tile = 0; tile < work.tiles; ++tile) {
      if constexpr (runs<G, Stage::qk>) k_rmem.store(smem.k);
      if constexpr (runs<G, Stage::pv>) v_rmem.store(smem.v);
      device::block_sync();  // K and V are complete
      if (tile + 1 < work.tiles) fetch(tile + 1);
      seam(tile, site::k_smem(smem.k), site::v_smem(smem.v));

      if constexpr (runs<G, Stage::qk>) qk(a, work, smem.q, smem.k, tile * Bc, s);
      seam(tile, site::s(s), site::m_prev(m));

      if constexpr (runs<G, Stage::softmax>) softmax(s, m, alpha, l, smem.p);
      seam(tile, site::m(m), site::alpha(alpha), site::p(smem.p), site::l(l), [] {
        device::block_sync();  // P is complete
      });

      if constexpr (runs<G, Stage::pv>) pv(smem.v, smem.p, alpha, o);
      seam(tile, site::o(o));
      device::block_sync();  // nobody reads K, V and P any more
    }
    if constexpr (runs<G, Stage::epilogue>) epilogue(a, work, o, m, l, seam);
  }
};

}  // namespace lanescope::kernels

#pragma once

#include "kernels/device/tiles.h"
#include "kernels/parts/arguments.h"
#include "kernels/parts/online_softmax.h"
#include "kernels/parts/tile_in_flight.h"
#include "kernels/trace/seam.h"
#include "kernels/trace/site_table.h"

namespace lanescope::kernels {

/// What the `wmma` kernel lets be traced. S, P and O lie in shared memory; m, alpha and l are
/// replicated over the lanes that share a row in the softmax.
template <class T, int D, int Br, int Bc>
struct WmmaSites {
  static constexpr int lanes = 8;  ///< of a row in the softmax and the epilogue
  static constexpr int threads = lanes * Br;
  static constexpr int warps = threads / 32;
  using RowValue = device::Registers<float, 1>;
  using OutputPart = device::Registers<float, D / lanes>;

  static constexpr auto table = site_table<D, Br, Bc, threads>(
      shared<T>(SiteId::q_smem), shared<T>(SiteId::k_smem), shared<T>(SiteId::v_smem),
      shared<float>(SiteId::s), registers<RowValue>(SiteId::m_prev), registers<RowValue>(SiteId::m),
      registers<RowValue>(SiteId::alpha), shared<T>(SiteId::p), registers<RowValue>(SiteId::l),
      shared<float>(SiteId::o), global<T>(SiteId::o_final), global<float>(SiteId::lse));

  /// A warp owns 16×16 tiles of S and of O, in turn, column of tiles by column.
  static constexpr int tile_row(int tile) { return tile % (Br / 16) * 16; }
  static constexpr int tile_col(int tile) { return tile / (Br / 16) * 16; }
  static constexpr int warp_of(int row, int col) {
    return (col / 16 * (Br / 16) + row / 16) % warps;
  }

  /// The row of the block that a thread helps with in the softmax and the epilogue.
  static constexpr int row_of(int thread) { return thread / lanes; }
  /// The column of O that register r of a lane stands for in the epilogue: four side by side.
  static constexpr int col_of(int lane, int r) {
    return r / 4 * 4 * lanes + lane % lanes * 4 + r % 4;
  }

  /// The element of the tile that a register stands for.
  static constexpr device::Coordinate coordinate(SiteId id, int warp, int lane, int reg) {
    return {row_of(warp * 32 + lane), id == SiteId::o_final ? col_of(lane, reg) : 0};
  }
  /// The thread that wrote an element of shared memory.
  static constexpr int owner(SiteId id, int row, int col) {
    return id == SiteId::p ? row * lanes + col % lanes
           : id == SiteId::s || id == SiteId::o
               ? warp_of(row, col) * 32 + device::lane_of_m16n16(row, col)
           : id == SiteId::k_smem
               ? TileInFlight<threads, T, device::TransposedTile<T, Bc, D>>::owner(row, col)
               : TileInFlight<threads, T, device::Tile<T, Bc, D>>::owner(row, col);
  }
};

/// FlashAttention-2 on nvcuda::wmma, whose fragments are opaque: all that is touched element by
/// element passes through shared memory, S and O as fp32, P in the type of the inputs. The
/// next K and V are fetched while a tile is worked on; K is transposed while it is stored.
template <Gate G, class T, int D, int Br, int Bc>
struct Wmma {
  using Sites = WmmaSites<T, D, Br, Bc>;
  using RowValue = typename Sites::RowValue;
  using OutputPart = typename Sites::OutputPart;
  static constexpr int threads = Sites::threads;
  static constexpr int warps = Sites::warps;
  static constexpr Products products = Products::tensor_core;
  static_assert(Br % 16 == 0 && Bc == 32 && D % 16 == 0);

  /// Rows are padded by 16 bytes, so that the rows that a matrix load reads together meet different
  /// banks.
  using Queries = device::Tile<T, Br, D, 8>;
  using Keys = device::TransposedTile<T, Bc, D, 8>;  ///< [d][key]
  using Values = device::Tile<T, Bc, D, 8>;
  using Scores = device::Tile<float, Br, Bc, 4>;
  using Weights = device::Tile<T, Br, Bc, 8>;
  using Output = device::Tile<float, Br, D, 4>;
  struct SharedMemory {
    alignas(32) Queries q;
    alignas(32) Keys k;
    alignas(32) Values v;
    alignas(32) Scores s;
    alignas(32) Weights p;
    alignas(32) Output o;
    float alpha[Br];

    /// Tells the memory checker the names of its tiles.
    template <class Visit>
    void name_tiles(Visit&& visit) {
      visit("q", q);
      visit("k", k);
      visit("v", v);
      visit("s", s);
      visit("p", p);
      visit("o", o);
      visit("alpha", alpha);
    }
  };

  /// S = Q·Kᵀ · scale · log2(e), −inf where the row does not see the key.
  LANESCOPE_DEVICE static void qk(const Attention& a, SharedMemory& smem, int first_query,
                                  int first_key) {
    const Mask mask{a, first_query};
    const int lane = device::lane();
    for (int tile = device::warp(); tile < Br * Bc / 256; tile += warps) {
      const int row = Sites::tile_row(tile), col = Sites::tile_col(tile);
      float s_rmem[8] = {};  // 16 queries × 16 keys
      LANESCOPE_UNROLL
      for (int d = 0; d < D; d += 16) {
        device::WmmaLeft<T, device::Major::row> q;   // 16 queries × 16 d
        device::WmmaRight<T, device::Major::row> k;  // 16 d × 16 keys
        device::load_matrix_sync(q, &smem.q.at(row, d), smem.q.stride);
        device::load_matrix_sync(k, &smem.k.at(col, d), smem.k.stride);
        device::mma_sync(s_rmem, q, k);
      }
      LANESCOPE_UNROLL
      for (float& s : s_rmem) s = s * a.scale_log2;
      device::store_matrix_sync(&smem.s.at(row, col), s_rmem, smem.s.stride);
      if (mask.all_see(row, first_key + col + 15)) continue;
      device::warp_sync();  // the tile is complete
      LANESCOPE_UNROLL
      for (int i = lane; i < 256; i += 32) {
        if (mask.sees(row + i / 16, first_key + col + i % 16)) continue;
        smem.s.at(row + i / 16, col + i % 16) = device::minus_infinity;
      }
    }
  }

  /// m = max(m_prev, max_j S_j)   alpha = 2^(m_prev − m)   P_j = 2^(S_j − m)   l = l·alpha + Σ P_j
  /// A row belongs to eight lanes, which take its keys in turn and agree on m, alpha and l.
  LANESCOPE_DEVICE static void softmax(const Scores& s, RowValue& m, RowValue& alpha, RowValue& l,
                                       Weights& p) {
    const int row = Sites::row_of(device::thread());
    constexpr int lanes = Sites::lanes;
    const int first = device::lane() % lanes;
    const float m_prev = m[0];
    LANESCOPE_UNROLL
    for (int j = first; j < Bc; j += lanes) m[0] = device::max(m[0], s.at(row, j));
    LANESCOPE_UNROLL
    for (int i = 1; i < lanes; i *= 2) m[0] = device::max(m[0], device::shfl_xor(m[0], i));
    alpha[0] = rescale(m_prev, m[0]);
    const float shift = shift_of(m[0]);
    float sum = 0.0f;
    LANESCOPE_UNROLL
    for (int j = first; j < Bc; j += lanes) {
      const float weight = device::ex2(s.at(row, j) - shift);
      sum = sum + weight;
      p.at(row, j) = device::narrow<T>(weight);
    }
    LANESCOPE_UNROLL
    for (int i = 1; i < lanes; i *= 2) sum = sum + device::shfl_xor(sum, i);
    l[0] = device::fma(l[0], alpha[0], sum);
  }

  /// Hands alpha from the lanes of a row to the warps that hold the row's output.
  LANESCOPE_DEVICE static void share(const RowValue& alpha, SharedMemory& smem) {
    if (device::lane() % Sites::lanes == 0) smem.alpha[Sites::row_of(device::thread())] = alpha[0];
  }

  /// O = O·alpha + P·V
  LANESCOPE_DEVICE static void pv(SharedMemory& smem) {
    const int lane = device::lane();
    for (int tile = device::warp(); tile < Br * D / 256; tile += warps) {
      const int row = Sites::tile_row(tile), col = Sites::tile_col(tile);
      LANESCOPE_UNROLL
      for (int i = lane; i < 256; i += 32) {
        float& o = smem.o.at(row + i / 16, col + i % 16);
        o = o * smem.alpha[row + i / 16];
      }
      device::warp_sync();  // the tile is rescaled
      float o_rmem[8];      // 16 queries × 16 d
      device::load_matrix_sync(o_rmem, &smem.o.at(row, col), smem.o.stride);
      LANESCOPE_UNROLL
      for (int key = 0; key < Bc; key += 16) {
        device::WmmaLeft<T, device::Major::row> p;   // 16 queries × 16 keys
        device::WmmaRight<T, device::Major::row> v;  // 16 keys × 16 d
        device::load_matrix_sync(p, &smem.p.at(row, key), smem.p.stride);
        device::load_matrix_sync(v, &smem.v.at(key, col), smem.v.stride);
        device::mma_sync(o_rmem, p, v);
      }
      device::store_matrix_sync(&smem.o.at(row, col), o_rmem, smem.o.stride);
    }
  }

  /// O / l and the log-sum-exp, to global memory.
  template <class Seam>
  LANESCOPE_DEVICE static void epilogue(const Attention& a, const Work& work, const Output& o_smem,
                                        const RowValue& m, const RowValue& l, const Seam& seam) {
    const int lane = device::lane(), row = Sites::row_of(device::thread());
    const float inverse = inverse_sum(l[0]);
    OutputPart o;
    LANESCOPE_UNROLL
    for (int r = 0; r < OutputPart::count; ++r) {
      o[r] = o_smem.at(row, Sites::col_of(lane, r)) * inverse;
    }
    RowValue lse{{log_sum_exp(m[0], l[0])}};
    seam(0, site::o_final(o), site::lse(lse));
    const int query = work.q_begin + row;
    if (query >= a.len_q) return;
    T* to = static_cast<T*>(a.o) + row_index(a, work, query) * D;
    LANESCOPE_UNROLL
    for (int r = 0; r < OutputPart::count; r += 2) {
      const std::uint32_t pair = device::pack<T>(o[r], o[r + 1]);
      *reinterpret_cast<std::uint32_t*>(to + Sites::col_of(lane, r)) = pair;
    }
    if (lane % Sites::lanes == 0) a.lse[row_index(a, work, query)] = lse[0];
  }

  template <class Trace>
  LANESCOPE_DEVICE static void run(const Attention& a, SharedMemory& smem,
                                   const Seam<G, Sites, Trace>& seam) {
    const Work work = work_of<Br, Bc>(a, seam.block);
    const T* q = rows_of<T, D>(a.q, work.batch, a.heads, work.head, a.len_q);
    const T* k = rows_of<T, D>(a.k, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    const T* v = rows_of<T, D>(a.v, work.batch, a.heads_kv, work.head_kv, a.len_kv);
    RowValue m{{device::minus_infinity}}, alpha{{0.0f}}, l{{0.0f}};

    TileInFlight<threads, T, Queries> q_rmem;
    TileInFlight<threads, T, Keys> k_rmem;
    TileInFlight<threads, T, Values> v_rmem;
    const auto fetch = [&](int tile) {
      if constexpr (runs<G, Stage::qk>) k_rmem.fetch(k, tile * Bc, a.len_kv);
      if constexpr (runs<G, Stage::pv>) v_rmem.fetch(v, tile * Bc, a.len_kv);
    };

    if (work.tiles > 0) fetch(0);
    if constexpr (runs<G, Stage::qk>) {
      q_rmem.fetch(q, work.q_begin, a.len_q);
      q_rmem.store(smem.q);
    }
    if constexpr (runs<G, Stage::pv>) {
      for (int i = device::thread(); i < Br * D; i += threads) smem.o.at(i / D, i % D) = 0.0f;
    }
    device::block_sync();  // Q and the zeros of O are complete
    seam(0, site::q_smem(smem.q));

    for (int tile = 0; tile < work.tiles; ++tile) {
      if constexpr (runs<G, Stage::qk>) k_rmem.store(smem.k);
      if constexpr (runs<G, Stage::pv>) v_rmem.store(smem.v);
      device::block_sync();  // K and V are complete
      if (tile + 1 < work.tiles) fetch(tile + 1);
      seam(tile, site::k_smem(smem.k), site::v_smem(smem.v));

      if constexpr (runs<G, Stage::qk>) qk(a, smem, work.q_begin, tile * Bc);
      seam(tile, site::s(smem.s), site::m_prev(m), [] {
        device::block_sync();  // S is complete
      });

      if constexpr (runs<G, Stage::softmax>) softmax(smem.s, m, alpha, l, smem.p);
      seam(tile, site::m(m), site::alpha(alpha), site::p(smem.p), site::l(l), [&] {
        if constexpr (runs<G, Stage::pv>) share(alpha, smem);
        device::block_sync();  // P and alpha are complete
      });

      if constexpr (runs<G, Stage::pv>) pv(smem);
      device::block_sync();  // O is complete, nobody reads K, V and P any more
      seam(tile, site::o(smem.o));
    }
    if constexpr (runs<G, Stage::epilogue>) epilogue(a, work, smem.o, m, l, seam);
  }
};

}  // namespace lanescope::kernels

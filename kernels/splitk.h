#pragma once

#include "kernels/parts/arguments.h"
#include "kernels/parts/mma_site_table.h"
#include "kernels/parts/mma_stages.h"
#include "kernels/parts/mma_tile_loop.h"
#include "kernels/parts/online_softmax.h"
#include "kernels/parts/row_tile.h"
#include "kernels/trace/seam.h"

namespace lanescope::kernels {

/// What the `splitk` kernel lets be traced. A warp holds 16 rows, at most four warps share a tile.
template <class T, int D, int Br, int Bc>
struct SplitkSites : MmaStages<T, D, Br, Bc, (Br < 64 ? Br / 16 : 4)> {
  using Stages = MmaStages<T, D, Br, Bc, (Br < 64 ? Br / 16 : 4)>;
  static constexpr auto table = mma_site_table<Stages>(
      alpha_of<Stages>(), global<float>(SiteId::o_partial), global<float>(SiteId::m_partial),
      global<float>(SiteId::l_partial), global<T>(SiteId::o_final), global<float>(SiteId::lse));

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
/// block, on mma.sync.m16n8k16 (kernels/parts/mma_stages.h), whose unnormalised O, m and l a second
/// pass combines. For few queries and many keys: a tile of 16 rows holds the queries of all heads
/// that share a kv head, its one warp keeps a ring of K and V tiles in flight, and the splits fill
/// the machine.
template <Gate G, class T, int D, int Br, int Bc>
struct Splitk : SplitkSites<T, D, Br, Bc>::Stages {
  using Sites = SplitkSites<T, D, Br, Bc>;
  using Stages = typename Sites::Stages;
  using Loop = MmaTileLoop<G, Stages, GroupMask, Stages::warps == 1 ? 3 : 2>;
  using SharedMemory = typename Loop::SharedMemory;
  using Stages::rows;
  using typename Stages::Output;
  using typename Stages::Rows;
  static constexpr Products products = Products::tensor_core;
  static constexpr int combine_threads = 32 * Sites::combine_warps;

  /// Unnormalised O, m and l of the split, to global memory.
  template <class Seam>
  LANESCOPE_DEVICE static void epilogue(const Attention& a, const RowTile& tile, std::int64_t block,
                                        Output& o, Rows& m, Rows& l, const Seam& seam) {
    struct alignas(8) Pair {
      float x, y;
    };
    seam(0, site::o_partial(o), site::m_partial(m), site::l_partial(l));
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
                                   const Seam<G, Sites, Trace>& seam) {
    const RowTile rows = row_tile_of<Br>(a, seam.block / a.splits);
    const Split split = split_of<Br, Bc>(a, rows, static_cast<int>(seam.block % a.splits));
    Loop::run(a, rows, split, smem, seam,
              [&](Output& o, Rows& m, Rows& l) { epilogue(a, rows, seam.block, o, m, l, seam); });
  }

  /// The second pass, of row tile `block`, for each row:
  /// m = max_i m_i   w_i = 2^(m_i − m)   l = Σ_i l_i·w_i   O = Σ_i O_i·w_i / l
  template <class Trace>
  LANESCOPE_DEVICE static void combine(const Attention& a, std::int64_t block,
                                       const Seam<G, Sites, Trace>& seam) {
    constexpr int columns = Sites::columns;
    constexpr int at_once = 8;  // splits whose partials a lane asks for before it uses any
    struct alignas(4 * columns) Columns {
      float x[columns];
    };
    struct Partial {
      Columns o;
      float m, l;
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
      for (int some = 0; some < a.splits; some += at_once) {
        Partial partials[at_once] = {};
        LANESCOPE_UNROLL
        for (int i = 0; i < at_once; ++i) {
          if (some + i >= a.splits) continue;
          const std::int64_t at = first + (some + i) * Br;
          partials[i] = {*reinterpret_cast<const Columns*>(a.partials.o + at * D + col),
                         a.partials.m[at], a.partials.l[at]};
        }
        LANESCOPE_UNROLL
        for (int i = 0; i < at_once; ++i) {
          if (some + i >= a.splits) continue;
          const float weight = rescale(partials[i].m, m);
          l = device::fma(partials[i].l, weight, l);
          LANESCOPE_UNROLL
          for (int c = 0; c < columns; ++c) {
            o[r * columns + c] = device::fma(partials[i].o.x[c], weight, o[r * columns + c]);
          }
        }
      }
      const float inverse = inverse_sum(l);
      LANESCOPE_UNROLL
      for (int c = 0; c < columns; ++c) o[r * columns + c] = o[r * columns + c] * inverse;
      lse[r] = log_sum_exp(m, l);
    }
    seam(0, site::o_final(o), site::lse(lse));
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

#pragma once

#include "kernels/device/tiles.h"
#include "kernels/parts/arguments.h"
#include "kernels/parts/online_softmax.h"
#include "reference/site.h"

namespace lanescope::kernels {

/// The stages of FlashAttention-2 on mma.sync.m16n8k16: K and V come through cp.async into swizzled
/// shared memory, S, P and O stay in fragments. Warp w of `Warps` owns the query rows
/// [w·16·Mt, (w+1)·16·Mt) of a block of Br rows; m, alpha and l are replicated over the four lanes
/// of a row.
template <class T, int D, int Br, int Bc, int Warps>
struct MmaStages {
  static_assert(Br % (16 * Warps) == 0 && Bc % 16 == 0 && D % 64 == 0);
  using Element = T;
  static constexpr int head_dim = D, br = Br, bc = Bc;
  static constexpr int warps = Warps;
  static constexpr int threads = 32 * Warps;
  static constexpr int Mt = Br / (16 * Warps);  ///< m16 tiles of a warp
  static constexpr int rows = 2 * Mt;           ///< query rows of a lane
  using Queries = device::SwizzledTile<T, Br, D>;
  using Keys = device::SwizzledTile<T, Bc, D>;  ///< or values
  using Scores = device::Accumulator<Mt, Bc / 8>;
  using Weights = device::LeftOperand<Mt, Bc / 16>;
  using Output = device::Accumulator<Mt, D / 8>;
  using Rows = device::Registers<float, rows>;

  /// The block's row that row register r of a lane stands for.
  static constexpr int row_of(int warp, int lane, int r) {
    return warp * 16 * Mt + r / 2 * 16 + r % 2 * 8 + lane / 4;
  }
  /// The row register that element i of a lane's Output belongs to.
  static constexpr int row_register(int i) { return i / 4 / (D / 8) * 2 + i % 4 / 2; }

  /// tile ← rows [first, first + TileType::rows) of a head, zeros from row `len` on. Asynchronous.
  /// A thread copies the same chunk of every threads / (D / 8)-th row.
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

  /// S = Q·Kᵀ, −inf where the row does not see the key. `mask` knows what the rows of the block
  /// see.
  template <class Mask>
  LANESCOPE_DEVICE static void qk(const Queries& q, const Keys& k, const Mask& mask, int first_key,
                                  Scores& s) {
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
    mask_scores(mask, first_key, s);
  }

  /// S = −inf where the row does not see the key.
  template <class Mask>
  LANESCOPE_DEVICE static void mask_scores(const Mask& mask, int first_key, Scores& s) {
    const int lane = device::lane();
    const int warp_row = device::warp() * 16 * Mt;
    // A tile that every row of the warp sees whole needs no mask; the branch is the warp's own.
    if (mask.all_see(warp_row, first_key + Bc - 1)) return;
    LANESCOPE_UNROLL
    for (int i = 0; i < Scores::count; ++i) {
      const device::Coordinate c = Scores::coordinate(lane, i);
      if (!mask.sees(warp_row + c.row, first_key + c.col)) s[i] = device::minus_infinity;
    }
  }

  /// m = max(m_prev, c · max_j S_j)   alpha = 2^(m_prev − m)   P_j = 2^(c · S_j − m)
  /// l = l·alpha + Σ P_j   with c = scale · log2(e): scaled here, a score costs one fused
  /// multiply-add instead of a multiplication and a subtraction.
  /// A row's scores lie in the four lanes of a quad, which agree on m, alpha and l.
  LANESCOPE_DEVICE static void softmax(float scale_log2, Scores& s, Rows& m, Rows& alpha, Rows& l,
                                       Weights& p) {
    softmax(scale_log2, s, m, alpha, l, [&](int r, int nt) { pack_weights(s, r, nt, p); });
  }

  /// The same, P in S's registers; keep(r, nt) is called when it holds the elements of row register
  /// r in n8 tile nt.
  template <class Keep>
  LANESCOPE_DEVICE static void softmax(float scale_log2, Scores& s, Rows& m, Rows& alpha, Rows& l,
                                       const Keep& keep) {
    LANESCOPE_UNROLL
    for (int r = 0; r < rows; ++r) {
      const int mt = r / 2, half = r % 2 * 2;
      const float m_prev = m[r];
      float top = device::minus_infinity;
      LANESCOPE_UNROLL
      for (int nt = 0; nt < Bc / 8; ++nt) {
        top = device::max(top, device::max(s.at(mt, nt, half), s.at(mt, nt, half + 1)));
      }
      m[r] = device::max(m[r], top * scale_log2);
      m[r] = device::max(m[r], device::shfl_xor(m[r], 1));
      m[r] = device::max(m[r], device::shfl_xor(m[r], 2));
      alpha[r] = rescale(m_prev, m[r]);
      const float shift = shift_of(m[r]);
      float sum = 0.0f;
      LANESCOPE_UNROLL
      for (int nt = 0; nt < Bc / 8; ++nt) {
        LANESCOPE_UNROLL
        for (int i = half; i < half + 2; ++i) {
          s.at(mt, nt, i) = device::ex2(device::fma(s.at(mt, nt, i), scale_log2, -shift));
          sum = sum + s.at(mt, nt, i);
        }
        keep(r, nt);
      }
      sum = sum + device::shfl_xor(sum, 1);
      sum = sum + device::shfl_xor(sum, 2);
      l[r] = device::fma(l[r], alpha[r], sum);
    }
  }

  /// P in the element type, from fp32: two accumulator fragments side by side are one A fragment.
  LANESCOPE_DEVICE static void pack_weights(const Scores& s, int r, int nt, Weights& p) {
    const int mt = r / 2, half = r % 2 * 2;
    p.at(mt, nt / 2, nt % 2 * 2 + r % 2) =
        device::pack<T>(s.at(mt, nt, half), s.at(mt, nt, half + 1));
  }

  /// O = O·alpha + P·V
  LANESCOPE_DEVICE static void pv(const Keys& v, const Weights& p, const Rows& alpha, Output& o) {
    const int lane = device::lane();
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; ++i) o[i] = o[i] * alpha[row_register(i)];
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

  /// The element of the block's tile that a register stands for: of s, p, a row of O, or a row.
  static constexpr device::Coordinate coordinate(SiteId id, int warp, int lane, int reg) {
    device::Coordinate c{};
    switch (id) {
      case SiteId::s:
        c = Scores::coordinate(lane, reg);
        break;
      case SiteId::p:
        c = Weights::coordinate(lane, reg);
        break;
      case SiteId::o:
      case SiteId::o_final:
        c = Output::coordinate(lane, reg);
        break;
      default:
        return {row_of(warp, lane, reg), 0};
    }
    return {warp * 16 * Mt + c.row, c.col};
  }
  /// The thread that wrote an element of shared memory, in chunks of 8.
  static constexpr int owner(SiteId, int row, int col) { return (row * D + col) / 8 % threads; }
};

}  // namespace lanescope::kernels

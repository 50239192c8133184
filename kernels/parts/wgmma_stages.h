#pragma once

#include <type_traits>

#include "kernels/device/hopper.h"
#include "kernels/parts/mma_stages.h"
#include "kernels/parts/transposed_values.h"
#include "kernels/parts/wgmma_operands.h"

namespace lanescope::kernels {

/// The stages of FlashAttention on wgmma.m64nNk16, in e4m3 m64nNk32: Q, K and V come as boxes of
/// tensors into swizzled shared memory, S, P and O stay in registers. A warpgroup owns 64 query
/// rows of a block of Br, a warp 16 of them; its accumulators are the m16n8 fragments of mma side
/// by side, so that their layout is that of `MmaStages`.
///
/// m of a row is the maximum of its first tile, and follows its scores only where P = 2^(S − m)
/// becomes large (RescaleRule), so that O and l are seldom rescaled. By sums: nothing but a lane's
/// sum of P, which l needs anyway, is looked at; where it is over 2^12 (in e4m3, which ends at 448,
/// 2^8), the tile's softmax is done once more, with the maximum. For D = 256, whose products take
/// longer than its softmax, and whose tiles of K have to go at once, the maximum is taken at every
/// tile.
template <class T, int D, int Br, int Bc>
struct WgmmaStages : MmaStages<T, D, Br, Bc, Br / 16> {
  static_assert(Br % 64 == 0);
  using Base = MmaStages<T, D, Br, Bc, Br / 16>;
  using typename Base::Output;
  using typename Base::Rows;
  using typename Base::Scores;
  using Queries = device::TensorTile<T, Br, D>;
  using Keys = device::TensorTile<T, Bc, D>;     ///< or values as they come
  static constexpr int k_step = 32 / sizeof(T);  ///< what a product sums over
  /// Of 8 bits: P, and V for it (kernels/parts/transposed_values.h).
  static constexpr bool transposes_values = sizeof(T) == 1;
  using Weights =
      std::conditional_t<transposes_values, PackedWeights<Bc / 32>, typename Base::Weights>;
  using Values = std::conditional_t<transposes_values, TransposedValues<T, Bc, D>, Keys>;
  static constexpr RescaleRule rescale = transposes_values ? RescaleRule{8, D < 256}
                                         : D < 256         ? RescaleRule{12, true}
                                                           : RescaleRule{8, false};
  static_assert(rescale.above < (transposes_values ? 9 : 16));  // P is an e4m3 or f16
  static_assert(Base::rows == 2);
  /// Where there are registers enough, Q stays in them: shared memory is read less, and takes the
  /// queries of the next item at once.
  static constexpr bool holds_queries = D == 128 && Bc <= 128;
  using QueryFragments = device::LeftOperand<1, holds_queries ? D / k_step : 1>;

  /// The row register that element i of S or O belongs to.
  static constexpr int row_of_element(int i) { return i % 4 / 2; }

  /// The warp's rows of Q.
  LANESCOPE_DEVICE static void load_queries(Queries& q, QueryFragments& rows) {
    const int lane = device::lane();
    LANESCOPE_UNROLL
    for (int d = 0; d < D; d += k_step) {
      device::ldmatrix_x4(rows.fragment(0, d / k_step),
                          &q.at(device::warp() * 16 + lane % 16, d + lane / 16 * (k_step / 2)));
    }
  }
  /// Starts S = Q·Kᵀ of the warpgroup's rows, as a group.
  LANESCOPE_DEVICE static void start_qk(QueryFragments& q, Keys& k, Scores& s) {
    const std::uint64_t k_rows = along_cols(k, 0);
    device::pin(q);
    device::pin(s);
    device::wgmma_fence();
    LANESCOPE_UNROLL
    for (int d = 0; d < D; d += k_step) {
      device::wgmma<T, device::Major::row>(s.x, q.fragment(0, d / k_step),
                                           k_rows + from_col<Keys>(d), d > 0);
    }
    device::wgmma_commit();
  }
  /// The same, Q in shared memory.
  LANESCOPE_DEVICE static void start_qk(int warpgroup, Queries& q, Keys& k, Scores& s) {
    const std::uint64_t q_rows = along_cols(q, warpgroup * 64), k_rows = along_cols(k, 0);
    device::pin(s);
    device::wgmma_fence();
    LANESCOPE_UNROLL
    for (int d = 0; d < D; d += k_step) {
      device::wgmma<T, device::Major::row, device::Major::row>(s.x, q_rows + from_col<Queries>(d),
                                                               k_rows + from_col<Keys>(d), d > 0);
    }
    device::wgmma_commit();
  }

  /// Starts O = O + P·V, as a group.
  LANESCOPE_DEVICE static void start_pv(Weights& p, Values& v, Output& o) {
    const std::uint64_t v_rows = along_keys(v);
    device::pin(p);
    device::pin(o);
    device::wgmma_fence();
    LANESCOPE_UNROLL
    for (int kt = 0; kt < Bc / k_step; ++kt) {
      device::wgmma<T, values_major>(o.x, p.fragment(0, kt), v_rows + from_key(kt * k_step), true);
    }
    device::wgmma_commit();
  }

  /// Tiles, from the first on, that the warpgroup's rows see whole: they need no mask.
  LANESCOPE_DEVICE static int whole_tiles(int warpgroup, const Mask& mask) {
    const int keys = mask.keys_of(warpgroup * 64);
    return keys < 0 ? 0 : keys / Bc;
  }
  /// Of the `tiles` of the block, those that hold a key which a row of the warpgroup sees.
  LANESCOPE_DEVICE static int seen_tiles(int warpgroup, const Mask& mask, int tiles) {
    const int keys = mask.keys_of(warpgroup * 64 + 63);
    const int seen = keys < 0 ? 0 : (keys + Bc - 1) / Bc;
    return seen < tiles ? seen : tiles;
  }

  /// S = −inf where the row does not see the key.
  LANESCOPE_DEVICE static void mask_scores(const Mask& mask, int first_key, Scores& s) {
    const int lane = device::lane();
    const int warp_row = device::warp() * 16;
    int seen[Base::rows];  // columns of the tile, counted from the lane's first
    LANESCOPE_UNROLL
    for (int r = 0; r < Base::rows; ++r) {
      seen[r] = mask.keys_of(warp_row + r * 8 + lane / 4) - first_key - lane % 4 * 2;
    }
    LANESCOPE_UNROLL
    for (int i = 0; i < Scores::count; ++i) {
      if (i / 4 * 8 + i % 2 >= seen[row_of_element(i)]) s[i] = device::minus_infinity;
    }
  }

  /// c · max_j S_j with c = scale · log2(e), of the rows. Their scores lie in the four lanes of a
  /// quad, which agree on all that is of a row.
  LANESCOPE_DEVICE static Rows row_maxima(float scale_log2, const Scores& s) {
    Rows top;
    LANESCOPE_UNROLL
    for (int r = 0; r < Base::rows; ++r) {
      float even = device::minus_infinity, odd = device::minus_infinity;  // two shorter chains
      LANESCOPE_UNROLL
      for (int nt = 0; nt < Bc / 8; ++nt) {
        float& longest = nt % 2 == 0 ? even : odd;
        longest = device::max(longest, device::max(s.at(0, nt, 2 * r), s.at(0, nt, 2 * r + 1)));
      }
      top[r] = device::max(even, odd);
    }
    LANESCOPE_UNROLL
    for (int distance = 1; distance < 4; distance *= 2) {
      LANESCOPE_UNROLL
      for (int r = 0; r < Base::rows; ++r) {
        top[r] = device::max(top[r], device::shfl_xor(top[r], distance));
      }
    }
    LANESCOPE_UNROLL
    for (int r = 0; r < Base::rows; ++r) top[r] = top[r] * scale_log2;
    return top;
  }

  /// Sums of P over columns of the lane, two for each row.
  using Chains = device::Registers<float, 2 * Base::rows>;
  /// P_j = 2^(c · S_j − m) of the elements from First up to End, in S's registers and added to
  /// sums.
  template <int First, int End>
  LANESCOPE_DEVICE static void weigh(float scale_log2, Scores& s, const Rows& m, Chains& sums) {
    const float shift[] = {shift_of(m[0]), shift_of(m[1])};
    LANESCOPE_UNROLL
    for (int i = First; i < End; ++i) {
      s[i] = device::ex2(device::fma(s[i], scale_log2, -shift[row_of_element(i)]));
      sums[i % 4] = sums[i % 4] + s[i];
    }
  }
  /// Elements of P that are made while the product of the tile before still reads P's registers. Of
  /// three warpgroups another's are made then, and a few are best.
  static constexpr int early_weights = transposes_values ? 0 : Br == 192 ? 2 : Scores::count / 4;

  /// Σ P_j over the columns of the lane.
  LANESCOPE_DEVICE static Rows lane_sums(const Chains& sums) {
    Rows all;
    LANESCOPE_UNROLL
    for (int r = 0; r < Base::rows; ++r) all[r] = sums[2 * r] + sums[2 * r + 1];
    return all;
  }
  /// The same, of scores whose P is not wanted.
  LANESCOPE_DEVICE static Rows lane_sums(float scale_log2, Scores s, const Rows& m) {
    Chains sums;
    sums.fill(0.0f);
    weigh<0, Scores::count>(scale_log2, s, m, sums);
    return lane_sums(sums);
  }

  /// P, in S's registers, as the operand of P·V.
  LANESCOPE_DEVICE static void pack(const Scores& s, Weights& p) {
    LANESCOPE_UNROLL
    for (int nt = 0; nt < Bc / 8; ++nt) {
      LANESCOPE_UNROLL
      for (int r = 0; r < Base::rows; ++r) {
        if constexpr (transposes_values) {
          if (nt % 2 == 0) pack_four(s, r, nt, p);
        } else {
          Base::pack_weights(s, r, nt, p);
        }
      }
    }
  }

  /// In which rows of a lane m follows.
  struct Rises {
    bool row[Base::rows];
    /// In any of the warp.
    LANESCOPE_DEVICE bool any() const { return device::ballot(row[0] || row[1]) != 0; }
  };
  /// Where the maximum is more than the threshold over m.
  LANESCOPE_DEVICE static Rises rises_over(float threshold, const Rows& top, const Rows& m) {
    return {top[0] > m[0] + threshold, top[1] > m[1] + threshold};
  }
  /// Where a lane's sum is too large or no number, and in a row that has no maximum yet.
  LANESCOPE_DEVICE static Rises rises_by_lane(const Rows& sum, const Rows& m) {
    constexpr float largest = 1 << rescale.above;
    Rises lane;
    LANESCOPE_UNROLL
    for (int r = 0; r < Base::rows; ++r) {
      lane.row[r] = !(sum[r] <= largest) || m[r] == device::minus_infinity;
    }
    return lane;
  }
  /// The same of any lane of the row.
  LANESCOPE_DEVICE static Rises rises_by_sums(const Rows& sum, const Rows& m) {
    Rises rises = rises_by_lane(sum, m);
    LANESCOPE_UNROLL
    for (int r = 0; r < Base::rows; ++r) {
      rises.row[r] = (device::ballot(rises.row[r]) >> device::lane() / 4 * 4 & 15) != 0;
    }
    return rises;
  }
  /// A row whose maximum is no more than this over m has no sum that is too large.
  static constexpr float sure_threshold = rescale.above - 6;
  static_assert(Bc / 4 <= 1 << 6);

  /// m = max(m_prev, top)   factor = 2^(m_prev − m)   alpha = alpha·factor   l = l·factor
  /// in the rows that rise.
  LANESCOPE_DEVICE static void raise(const Rows& top, const Rises& rises, Rows& m, Rows& alpha,
                                     Rows& l) {
    LANESCOPE_UNROLL
    for (int r = 0; r < Base::rows; ++r) {
      if (!rises.row[r]) continue;
      const float m_prev = m[r];
      m[r] = device::max(m_prev, top[r]);
      const float factor = lanescope::kernels::rescale(m_prev, m[r]);
      alpha[r] = alpha[r] * factor;
      l[r] = l[r] * factor;
    }
  }

  /// l of the rows, from what the lanes of each have.
  LANESCOPE_DEVICE static Rows row_sums(const Rows& l) {
    Rows sums = l;
    LANESCOPE_UNROLL
    for (int r = 0; r < Base::rows; ++r) {
      sums[r] = sums[r] + device::shfl_xor(sums[r], 1);
      sums[r] = sums[r] + device::shfl_xor(sums[r], 2);
    }
    return sums;
  }

  /// Whether a row of the warp has an alpha but 1.
  LANESCOPE_DEVICE static bool rescales(const Rows& alpha) {
    return device::ballot(alpha[0] != 1.0f || alpha[1] != 1.0f) != 0;
  }
  /// O = O·alpha
  LANESCOPE_DEVICE static void rescale_output(const Rows& alpha, Output& o) {
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; ++i) o[i] = o[i] * alpha[row_of_element(i)];
  }

  /// The element of the block's tile that a register stands for: of s, p, a row of O, or a row.
  static constexpr device::Coordinate coordinate(SiteId id, int warp, int lane, int reg) {
    if (!transposes_values || id != SiteId::p) return Base::coordinate(id, warp, lane, reg);
    const device::Coordinate c = Weights::coordinate(lane, reg);
    return {warp * 16 + c.row, c.col};
  }
  /// The thread that wrote an element of shared memory: the one that issues the copies, or one that
  /// transposes.
  static constexpr int owner(SiteId id, int row, int col) {
    if constexpr (transposes_values) {
      if (id == SiteId::v_smem) return ValueTransposer<WgmmaStages>::owner(row, col);
    }
    return Base::threads;
  }

 private:
  /// V as it comes has the columns side by side, transposed the keys.
  static constexpr device::Major values_major =
      transposes_values ? device::Major::row : device::Major::col;

  /// P of row register r and the keys of n8 tiles nt and nt + 1: one register of the operand.
  LANESCOPE_DEVICE static void pack_four(const Scores& s, int r, int nt, Weights& p) {
    p.at(0, nt / 4, nt % 4 + r) =
        device::pack_e4m3(s.at(0, nt, 2 * r), s.at(0, nt, 2 * r + 1), s.at(0, nt + 1, 2 * r),
                          s.at(0, nt + 1, 2 * r + 1));
  }

  /// V for the product that sums over its keys, and what is added for the keys from `key` on.
  LANESCOPE_DEVICE static std::uint64_t along_keys(Values& v) {
    if constexpr (transposes_values) {
      return along_cols(v.by_column, 0);
    } else {
      return along_rows(v);
    }
  }
  static constexpr std::uint64_t from_key(int key) {
    if constexpr (transposes_values) {
      return from_col<typename Values::Tile>(key);
    } else {
      return from_row<Values>(key);
    }
  }
};

}  // namespace lanescope::kernels

#pragma once

#include "kernels/device/hopper.h"
#include "kernels/parts/mma_stages.h"

namespace lanescope::kernels {

/// The stages of FlashAttention on wgmma.m64nNk16: Q, K and V come as boxes of tensors into
/// swizzled shared memory, S, P and O stay in registers. A warpgroup owns 64 query rows of a block
/// of Br, a warp 16 of them; its accumulators are the m16n8 fragments of mma side by side, so that
/// softmax, mask and layout are those of `MmaStages`.
template <class T, int D, int Br, int Bc>
struct WgmmaStages : MmaStages<T, D, Br, Bc, Br / 16> {
  static_assert(Br % 64 == 0);
  using Base = MmaStages<T, D, Br, Bc, Br / 16>;
  using typename Base::Output;
  using typename Base::Rows;
  using typename Base::Scores;
  using typename Base::Weights;
  using Queries = device::TensorTile<T, Br, D>;
  using Keys = device::TensorTile<T, Bc, D>;  ///< or values

  /// Starts S = Q·Kᵀ, as a group.
  LANESCOPE_DEVICE static void start_qk(Queries& q, Keys& k, Scores& s) {
    const int first_row = device::warp() / 4 * 64;
    device::pin(s);
    device::wgmma_fence();
    LANESCOPE_UNROLL
    for (int d = 0; d < D; d += 16) {
      device::wgmma<T, device::Major::row, device::Major::row>(s.x, along_d(q, first_row, d),
                                                               along_d(k, 0, d), d > 0);
    }
    device::wgmma_commit();
  }

  /// Starts O = O + P·V, as a group.
  LANESCOPE_DEVICE static void start_pv(Weights& p, Keys& v, Output& o) {
    device::pin(p);
    device::pin(o);
    device::wgmma_fence();
    LANESCOPE_UNROLL
    for (int kt = 0; kt < Bc / 16; ++kt) {
      device::wgmma<T, device::Major::col>(o.x, p.fragment(0, kt), along_keys(v, kt * 16), true);
    }
    device::wgmma_commit();
  }

  /// The softmax of a tile while P of the one before is in use: its own stays in S's registers.
  LANESCOPE_DEVICE static void softmax(float scale_log2, Scores& s, Rows& m, Rows& alpha, Rows& l) {
    Base::softmax(scale_log2, s, m, alpha, l, [](int, int) {});
  }
  LANESCOPE_DEVICE static void pack_weights(const Scores& s, Weights& p) {
    LANESCOPE_UNROLL
    for (int nt = 0; nt < Bc / 8; ++nt) {
      LANESCOPE_UNROLL
      for (int r = 0; r < Base::rows; ++r) Base::pack_weights(s, r, nt, p);
    }
  }

  /// O = O·alpha
  LANESCOPE_DEVICE static void rescale_output(const Rows& alpha, Output& o) {
    LANESCOPE_UNROLL
    for (int i = 0; i < Output::count; ++i) o[i] = o[i] * alpha[Base::row_register(i)];
  }

  /// The thread that wrote an element of shared memory: the one that issues the copies.
  static constexpr int owner(SiteId, int, int) { return Base::threads; }

 private:
  static constexpr int eight_rows = 8 * 128;  ///< bytes: the swizzle's pattern

  /// Rows from `row` on, columns [d, d + 16): the product sums over d.
  template <class TileType>
  LANESCOPE_DEVICE static std::uint64_t along_d(TileType& tile, int row, int d) {
    const std::uint32_t begin = device::shared_address(&tile.x[d / 64][row][0]) +
                                static_cast<std::uint32_t>(d % 64 * sizeof(T));
    return device::matrix_descriptor(begin, 16, eight_rows, device::Swizzle::b128);
  }
  /// Rows [key, key + 16), all columns: the product sums over the rows.
  LANESCOPE_DEVICE static std::uint64_t along_keys(Keys& tile, int key) {
    return device::matrix_descriptor(device::shared_address(&tile.x[0][key][0]), Keys::box_bytes,
                                     eight_rows, device::Swizzle::b128);
  }
};

}  // namespace lanescope::kernels

#pragma once

#include "kernels/parts/scaled_inputs.h"
#include "kernels/parts/turns.h"
#include "kernels/parts/wgmma_stages.h"
#include "kernels/parts/wgmma_supply.h"
#include "kernels/trace/at_site.h"

namespace lanescope::kernels {

/// What a lane of a consuming warpgroup holds of an item, and the steps of a tile.
template <Gate G, class Stages, class Seam>
struct WgmmaSteps : WgmmaSupply<G, Stages> {
  using Supply = WgmmaSupply<G, Stages>;
  using Attention = AttentionOf<typename Stages::Element>;
  using Output = typename Stages::Output;
  using Rows = typename Stages::Rows;
  using Scores = typename Stages::Scores;
  using Weights = typename Stages::Weights;
  using Turn = Turns<Stages::threads / 128>;
  using Supply::k, Supply::kept, Supply::v, Supply::q, Supply::smem;
  using Supply::leave_keys, Supply::leave_values, Supply::wait_for_keys, Supply::wait_for_values;
  using Supply::wait_for_next_values;
  static constexpr int Bc = Stages::bc;
  static constexpr bool by_sums = Stages::rescale.by_sums;
  /// V of a tile is waited for among its exponentials.
  static constexpr bool waits_ahead = Stages::early_weights > 0;
  static constexpr bool is_scaled = sizeof(typename Stages::Element) == 1;

  /// What the warpgroup's rows see.
  struct Range {
    const Mask& mask;
    int whole;  ///< tiles from the first on that need no mask
  };

  const Attention& a;
  int warpgroup;
  typename Stages::QueryFragments queries;
  Scores s;
  Weights p;
  Rows m, alpha, sum, l;         ///< sum: of P, of this tile; both sums of the lane's columns
  typename Stages::Chains sums;  ///< of which sum is made
  Output o;
  bool rescales;       ///< O of a row of the warp, at this tile
  bool is_steep;       ///< m of the item had to follow
  std::uint32_t told;  ///< of the tile before, whether a lane of the warpgroup has too large a sum
  float own_factor;    ///< the item's, where heads have scales

  LANESCOPE_DEVICE WgmmaSteps(const Attention& attention, typename Supply::Memory& memory,
                              int own_warpgroup)
      : Supply(memory), a(attention), warpgroup(own_warpgroup) {}

  /// What a product of the item's Q and K is multiplied by to be a score in base 2.
  LANESCOPE_DEVICE float factor() const { return is_scaled ? own_factor : a.scale_log2; }

  /// Before an item's first tile.
  LANESCOPE_DEVICE void clear() {
    m.fill(device::minus_infinity);
    l.fill(0.0f);
    o.fill(0.0f);
    is_steep = false;
  }
  /// Issues S = Q·Kᵀ.
  LANESCOPE_DEVICE void start_scores(const Seam& seam, int tile) {
    seam(tile, site::k_smem(smem.k[k.slot]));
    multiply_keys(k.slot);
  }
  /// S is there.
  LANESCOPE_DEVICE void finish_scores(const Seam& seam, const Range& range, int tile) {
    device::pin(s);
    if constexpr (!by_sums) leave_keys();
    if constexpr (runs<G, Stage::qk>) {
      k.advance();
      if (tile >= range.whole) Stages::mask_scores(range.mask, tile * Bc, s);
    }
    alpha.fill(1.0f);
    rescales = false;
    seam(tile, site::s(s), site::m_prev(m));
  }
  /// m of the first tile.
  LANESCOPE_DEVICE void set_maximum() {
    if constexpr (runs<G, Stage::softmax>) {
      Stages::raise(Stages::row_maxima(factor(), s), {true, true}, m, alpha, l);
    }
  }
  /// m of a tile whose P is not there yet; by sums, where the item had to follow before, so that it
  /// need not do so by a detour again. The warp that has to rescale O needs it now: without this
  /// branch, ptxas would have all warps wait before they look for the maximum.
  LANESCOPE_DEVICE void raise_maximum() {
    if constexpr (runs<G, Stage::softmax>) {
      if (by_sums && !is_steep) return;
      const Rows top = Stages::row_maxima(factor(), s);
      typename Stages::Rises rises =
          Stages::rises_over(by_sums ? Stages::sure_threshold : Stages::rescale.above, top, m);
      if (!rises.any()) return;
      if constexpr (by_sums) {
        rises = Stages::rises_by_sums(Stages::lane_sums(factor(), s, m), m);
      }
      rescales = true;
      device::wgmma_wait<0>();
      device::pin(o);
      Stages::raise(top, rises, m, alpha, l);
    }
  }
  /// P, as long as m need not follow: begun beside P·V of the tile before, which reads P's
  /// registers. Then a wait for the tile's own V, which is there by now, so that its product begins
  /// without; and without a branch here, ptxas would have the wait for P·V come first.
  LANESCOPE_DEVICE void begin_weights() {
    if constexpr (runs<G, Stage::softmax>) {
      sums.fill(0.0f);
      Stages::template weigh<0, Stages::early_weights>(factor(), s, m, sums);
    }
    if constexpr (waits_ahead) wait_for_next_values();
  }
  LANESCOPE_DEVICE void finish_weights() {
    if constexpr (runs<G, Stage::softmax>) {
      Stages::template weigh<Stages::early_weights, Scores::count>(factor(), s, m, sums);
      Stages::pack(s, p);
      sum = Stages::lane_sums(sums);
    }
  }
  /// The same where no product runs.
  LANESCOPE_DEVICE void weigh() {
    if constexpr (runs<G, Stage::softmax>) {
      sums.fill(0.0f);
      Stages::template weigh<0, Stages::early_weights>(factor(), s, m, sums);
      finish_weights();
    }
  }
  /// Tells the warpgroup where m has to follow in a row of the lane.
  LANESCOPE_DEVICE void tell_sums(int tile) {
    if constexpr (runs<G, Stage::softmax> && by_sums) {
      const typename Stages::Rises rises = Stages::rises_by_lane(sum, m);
      if (rises.row[0] || rises.row[1]) {
        device::store_relaxed(smem.l_too_large[tile % 2][warpgroup], 1);
      }
    }
  }
  /// What all its lanes have told, once they have met.
  LANESCOPE_DEVICE void hear_sums(int tile) {
    if constexpr (runs<G, Stage::softmax> && by_sums) {
      told = smem.l_too_large[tile % 2][warpgroup];
    }
  }
  /// The softmax of a tile once more, m following in the rows that need it; wgmma being of the
  /// whole warpgroup, all of it does so.
  LANESCOPE_DEVICE void follow(const Seam& seam, const Range& range, int tile) {
    Turn::meet(warpgroup);  // all have heard
    if (device::thread() % 128 == 0) smem.l_too_large[tile % 2][warpgroup] = 0;
    if constexpr (runs<G, Stage::qk>) {
      device::wgmma_wait<0>();
      multiply_keys(kept.slot);
      device::wgmma_wait<0>();
      device::pin(s);
      if (tile >= range.whole) Stages::mask_scores(range.mask, tile * Bc, s);
    } else {
      seam(tile, site::s(s));
    }
    rescales = is_steep = true;
    const Rows top = Stages::row_maxima(factor(), s);
    Stages::raise(top, Stages::rises_by_sums(sum, m), m, alpha, l);
    weigh();
  }
  /// m, P and l of a tile are what they stay; O is then in the units of m. `next_started`: S's
  /// registers are taken by the next tile's scores, which are started again where they are needed.
  LANESCOPE_DEVICE void settle(const Seam& seam, const Range& range, int tile, bool next_started) {
    if constexpr (runs<G, Stage::softmax>) {
      if (by_sums && tile > 0 && device::ballot(told != 0) != 0) {
        follow(seam, range, tile);
        if (next_started) multiply_keys(k.slot);
      }
      LANESCOPE_UNROLL
      for (int r = 0; r < Rows::count; ++r) l[r] = l[r] + sum[r];
    }
    if constexpr (by_sums) leave_keys();
    Rows row_l = l;
    if constexpr (Seam::template shows<SiteId::l>) row_l = Stages::row_sums(l);
    seam(tile, site::m(m), site::alpha(alpha), site::p(p), site::l(row_l));
    if constexpr (runs<G, Stage::pv>) {
      if constexpr (!runs<G, Stage::softmax>) rescales = Stages::rescales(alpha);
      if (rescales) Stages::rescale_output(alpha, o);
    }
  }
  /// Issues O = O + P·V.
  LANESCOPE_DEVICE void start_output(const Seam& seam, int tile) {
    if constexpr (!waits_ahead) wait_for_values();
    auto& values = smem.values(v.slot);
    seam(tile, site::v_smem(values));
    if constexpr (runs<G, Stage::pv>) Stages::start_pv(p, values, o);
  }
  /// O is there.
  LANESCOPE_DEVICE void finish_output(const Seam& seam, int tile) {
    device::wgmma_wait<0>();
    device::pin(o);
    leave_values();
    seam(tile, site::o(o));
  }
  /// A tile that no row of the warpgroup sees: its K goes by, then its V.
  LANESCOPE_DEVICE void pass_keys(const Seam& seam, int tile) {
    wait_for_keys();
    if (tile > 0) {
      Turn::take(warpgroup);
      Turn::pass(warpgroup);
    }
    seam(tile, site::k_smem(smem.k[k.slot]));
    k.advance();
    leave_keys();
  }
  LANESCOPE_DEVICE void pass_values(const Seam& seam, int tile) {
    wait_for_values();
    auto& values = smem.values(v.slot);
    seam(tile, site::v_smem(values));
    leave_values();
  }
  /// What a tile would leave whose scores are all −inf.
  LANESCOPE_DEVICE void show_unseen(const Seam& seam, int tile) {
    constexpr bool shown = Seam::template shows<SiteId::s> || Seam::template shows<SiteId::m> ||
                           Seam::template shows<SiteId::o>;
    if constexpr (!shown) return;
    Scores none;
    Weights zero;
    Rows top, nothing;
    none.fill(device::minus_infinity);
    top.fill(device::minus_infinity);
    zero.fill(0);
    nothing.fill(0.0f);
    alpha.fill(1.0f);
    seam(tile, site::s(none), site::m_prev(m));
    if (tile == 0) {
      Stages::raise(top, {true, true}, m, alpha, l);
    } else if constexpr (by_sums) {
      Stages::raise(top, Stages::rises_by_sums(nothing, m), m, alpha, l);
    }
    Rows row_l = Stages::row_sums(l);
    seam(tile, site::m(m), site::alpha(alpha), site::p(zero), site::l(row_l));
    seam(tile, site::o(o));
  }

 private:
  LANESCOPE_DEVICE void multiply_keys(int slot) {
    if constexpr (runs<G, Stage::qk> && Stages::holds_queries) {
      Stages::start_qk(queries, smem.k[slot], s);
    } else if constexpr (runs<G, Stage::qk>) {
      Stages::start_qk(warpgroup, smem.q[q.slot], smem.k[slot], s);
    }
  }
};

}  // namespace lanescope::kernels

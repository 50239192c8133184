#pragma once

#include "kernels/parts/arguments.h"
#include "kernels/parts/mma_epilogue.h"
#include "kernels/parts/ring.h"
#include "kernels/parts/wgmma_memory.h"
#include "kernels/parts/wgmma_stages.h"
#include "kernels/trace/at_site.h"
#include "reference/gate.h"

namespace lanescope::kernels {

/// The warpgroups issue their products by turns, so that one multiplies while another's softmax
/// runs: barrier 1 + i is the turn of warpgroup i, which the one before it gives. The warps of a
/// warpgroup take it together: what they wrote to shared memory before, all of them see.
template <int Warpgroups>
struct Turns {
  LANESCOPE_DEVICE static void take(int warpgroup) {
    if constexpr (Warpgroups > 1) {
      device::barrier_sync(1 + warpgroup, 2 * 128);
    } else {
      meet(warpgroup);
    }
  }
  LANESCOPE_DEVICE static void pass(int warpgroup) {
    if constexpr (Warpgroups > 1) {
      device::barrier_arrive(1 + (warpgroup + 1) % Warpgroups, 2 * 128);
    }
  }
  /// The warps of a warpgroup, without a turn.
  LANESCOPE_DEVICE static void meet(int warpgroup) {
    device::barrier_sync(1 + Warpgroups + warpgroup, 128);
  }
};

/// What a lane of a consuming warpgroup holds, and the steps of a tile.
template <Gate G, class Stages, class Seam>
struct WgmmaConsumer {
  using Memory = WgmmaMemory<Stages>;
  using Output = typename Stages::Output;
  using Rows = typename Stages::Rows;
  using Scores = typename Stages::Scores;
  using Weights = typename Stages::Weights;
  using Turn = Turns<Stages::threads / 128>;
  static constexpr int Bc = Stages::bc, ring = Memory::ring;
  static constexpr bool by_sums = Stages::rescale.by_sums;

  /// What the warpgroup's rows see.
  struct Range {
    const Mask& mask;
    int whole;  ///< tiles from the first on that need no mask
  };

  const Attention& a;
  Memory& smem;
  int warpgroup;
  Ring<ring> k, v;  ///< the tile of K whose scores come next, and the one of V
  Ring<ring> kept;  ///< the tile of K whose scores may be needed once more
  Ring<1> q, next;
  Scores s;
  Weights p;
  Rows m, alpha, sum, l;  ///< sum: of P, of this tile; both sums of the lane's columns
  Output o;
  bool rescales;  ///< O of a row of the warp, at this tile
  bool is_steep;  ///< m of the item had to follow

  LANESCOPE_DEVICE WgmmaConsumer(const Attention& attention, Memory& memory, int own_warpgroup)
      : a(attention), smem(memory), warpgroup(own_warpgroup) {}

  /// The tiles that the gate has copied: Q, K and V are there, and may be overwritten.
  LANESCOPE_DEVICE void wait_for_queries() {
    if constexpr (runs<G, Stage::qk>) {
      device::mbarrier_wait(smem.q_full[0], q.parity);
      q.advance();
    }
  }
  LANESCOPE_DEVICE void leave_queries() {
    if constexpr (runs<G, Stage::qk>) release(smem.q_empty[0]);
  }
  LANESCOPE_DEVICE void wait_for_keys() {
    if constexpr (runs<G, Stage::qk>) device::mbarrier_wait(smem.k_full[k.slot], k.parity);
  }
  LANESCOPE_DEVICE void leave_keys() {
    if constexpr (runs<G, Stage::qk>) {
      release(smem.k_empty[kept.slot]);
      kept.advance();
    }
  }
  LANESCOPE_DEVICE void wait_for_values() {
    if constexpr (runs<G, Stage::pv>) device::mbarrier_wait(smem.v_full[v.slot], v.parity);
  }
  LANESCOPE_DEVICE void leave_values() {
    if constexpr (runs<G, Stage::pv>) {
      release(smem.v_empty[v.slot]);
      v.advance();
    }
  }
  /// Issues S = Q·Kᵀ.
  LANESCOPE_DEVICE void start_scores(const Seam& seam, int tile) {
    seam(tile, site::k_smem(smem.k[k.slot]));
    if constexpr (runs<G, Stage::qk>) Stages::start_qk(warpgroup, smem.q, smem.k[k.slot], s);
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
      Stages::raise(Stages::row_maxima(a.scale_log2, s), {true, true}, m, alpha, l);
    }
  }
  /// m of a tile whose P is not there yet; by sums, where the item had to follow before, so that it
  /// need not do so by a detour again. The warp that has to rescale O needs it now: without this
  /// branch, ptxas would have all warps wait before they look for the maximum.
  LANESCOPE_DEVICE void raise_maximum() {
    if constexpr (runs<G, Stage::softmax>) {
      if (by_sums && !is_steep) return;
      const Rows top = Stages::row_maxima(a.scale_log2, s);
      typename Stages::Rises rises =
          Stages::rises_over(by_sums ? Stages::sure_threshold : Stages::rescale.above, top, m);
      if (!rises.any()) return;
      if constexpr (by_sums) {
        rises = Stages::rises_by_sums(Stages::lane_sums(a.scale_log2, s, m, [](int, float) {}), m);
      }
      rescales = true;
      device::wgmma_wait<0>();
      device::pin(o);
      Stages::raise(top, rises, m, alpha, l);
    }
  }
  /// P, as long as m need not follow.
  LANESCOPE_DEVICE void weigh() {
    if constexpr (runs<G, Stage::softmax>) sum = Stages::weigh(a.scale_log2, s, m, p);
  }
  /// Tells the other warps of the warpgroup whether m has to follow in a row of this one.
  LANESCOPE_DEVICE void tell_sums(int tile) {
    if constexpr (runs<G, Stage::softmax> && by_sums) {
      const bool any = Stages::rises_by_lane(sum, m).any();
      if (device::lane() == 0) smem.l_too_large[tile % 2][device::warp()] = any;
    }
  }
  LANESCOPE_DEVICE bool has_to_follow(int tile) {
    const int warp = warpgroup * 4 + device::lane() % 4;
    return device::ballot(smem.l_too_large[tile % 2][warp] != 0) != 0;
  }
  /// The softmax of a tile once more, m following in the rows that need it; wgmma being of the
  /// whole warpgroup, all of it does so.
  LANESCOPE_DEVICE void follow(const Seam& seam, const Range& range, int tile) {
    if constexpr (runs<G, Stage::qk>) {
      device::wgmma_wait<0>();
      Stages::start_qk(warpgroup, smem.q, smem.k[kept.slot], s);
      device::wgmma_wait<0>();
      device::pin(s);
      if (tile >= range.whole) Stages::mask_scores(range.mask, tile * Bc, s);
    } else {
      seam(tile, site::s(s));
    }
    rescales = is_steep = true;
    const Rows top = Stages::row_maxima(a.scale_log2, s);
    Stages::raise(top, Stages::rises_by_sums(sum, m), m, alpha, l);
    weigh();
  }
  /// m, P and l of a tile are what they stay; O is then in the units of m. `next_started`: S's
  /// registers are taken by the next tile's scores, which are started again where they are needed.
  LANESCOPE_DEVICE void settle(const Seam& seam, const Range& range, int tile, bool next_started) {
    if constexpr (runs<G, Stage::softmax>) {
      if (by_sums && tile > 0 && has_to_follow(tile)) {
        follow(seam, range, tile);
        if constexpr (runs<G, Stage::qk>) {
          if (next_started) Stages::start_qk(warpgroup, smem.q, smem.k[k.slot], s);
        }
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
    wait_for_values();
    seam(tile, site::v_smem(smem.v[v.slot]));
    if constexpr (runs<G, Stage::pv>) Stages::start_pv(p, smem.v[v.slot], o);
  }
  /// O is there.
  LANESCOPE_DEVICE void finish_output(const Seam& seam, int tile) {
    device::wgmma_wait<0>();
    device::pin(o);
    leave_values();
    seam(tile, site::o(o));
  }

  /// The online softmax over the tiles of an item. Q·Kᵀ of a tile and P·V of the one before are
  /// issued together, so that P·V runs while the softmax does. Whether m has to follow in the tile
  /// before is seen between the two: by then all warps have told, and nobody waits.
  LANESCOPE_DEVICE void run(const Work& work, const Seam& seam) {
    const Mask mask{a, work.q_begin};
    const Range range{mask, Stages::whole_tiles(warpgroup, mask)};
    m.fill(device::minus_infinity);
    l.fill(0.0f);
    o.fill(0.0f);
    is_steep = false;
    if (work.tiles > 0) {
      wait_for_queries();
      seam(0, site::q_smem(smem.q));
      wait_for_keys();
      start_scores(seam, 0);
      device::wgmma_wait<0>();
      finish_scores(seam, range, 0);
      set_maximum();
      weigh();
      for (int tile = 1; tile < work.tiles; ++tile) {
        wait_for_keys();
        Turn::take(warpgroup);
        start_scores(seam, tile);
        settle(seam, range, tile - 1, true);
        start_output(seam, tile - 1);
        Turn::pass(warpgroup);
        device::wgmma_wait<groups_of_output>();
        finish_scores(seam, range, tile);
        raise_maximum();
        finish_output(seam, tile - 1);
        weigh();
        tell_sums(tile);
      }
      if constexpr (by_sums) Turn::meet(warpgroup);
      settle(seam, range, work.tiles - 1, false);
      leave_queries();
      start_output(seam, work.tiles - 1);
      finish_output(seam, work.tiles - 1);
    }
    if constexpr (runs<G, Stage::epilogue>) {
      MmaEpilogue<Stages>::run(a, work, o, m, Stages::row_sums(l), seam);
    }
  }
  /// An item that ends before the warpgroup's rows: its tiles go by.
  LANESCOPE_DEVICE void pass_over(const Work& work, const Seam& seam) {
    if (work.tiles == 0) return;
    wait_for_queries();
    seam(0, site::q_smem(smem.q));
    leave_queries();
    for (int tile = 0; tile < work.tiles; ++tile) {
      wait_for_keys();
      if (tile > 0) {
        Turn::take(warpgroup);
        Turn::pass(warpgroup);
      }
      seam(tile, site::k_smem(smem.k[k.slot]));
      k.advance();
      leave_keys();
      wait_for_values();
      seam(tile, site::v_smem(smem.v[v.slot]));
      leave_values();
    }
  }
  /// What the producer says is next.
  LANESCOPE_DEVICE Item next_item() {
    device::mbarrier_wait(smem.item_full[0], next.parity);
    next.advance();
    const Item item = smem.item[0];
    release(smem.item_empty[0]);
    return item;
  }

 private:
  /// Groups of products that a tile's P·V is.
  static constexpr int groups_of_output = runs<G, Stage::pv> ? 1 : 0;

  /// The calling warp has done with a tile.
  LANESCOPE_DEVICE static void release(device::Mbarrier& empty) {
    device::warp_sync();  // all its lanes have
    if (device::lane() == 0) device::mbarrier_arrive(empty);
  }
};

}  // namespace lanescope::kernels

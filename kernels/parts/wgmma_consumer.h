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
/// runs: barrier 1 + i is the turn of warpgroup i, which the one before it gives.
template <int Warpgroups>
struct Turns {
  LANESCOPE_DEVICE static void take(int warpgroup) {
    if constexpr (Warpgroups > 1) device::barrier_sync(1 + warpgroup, 2 * 128);
  }
  LANESCOPE_DEVICE static void pass(int warpgroup) {
    if constexpr (Warpgroups > 1) {
      device::barrier_arrive(1 + (warpgroup + 1) % Warpgroups, 2 * 128);
    }
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

  const Attention& a;
  Memory& smem;
  int warpgroup;
  Ring<ring> k, v;  ///< the tile of K whose scores come next, and the one of V
  Ring<1> q, next;
  Scores s;
  Weights p;
  Rows m, alpha, l;  ///< l: of the lane's columns
  Output o;
  bool rises;  ///< the m of a row of the warp, at this tile

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
      release(smem.k_empty[k.slot]);
      k.advance();
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
  LANESCOPE_DEVICE void finish_scores(const Seam& seam, const Mask& mask, int whole, int tile) {
    device::pin(s);
    leave_keys();
    if constexpr (runs<G, Stage::qk>) {
      if (tile >= whole) Stages::mask_scores(mask, tile * Bc, s);
    }
    seam(tile, site::s(s), site::m_prev(m));
  }
  /// m and alpha of the tile. The warp that has to rescale O needs it now: without this branch,
  /// ptxas would have all warps wait before they look for the maximum.
  LANESCOPE_DEVICE void raise_maximum() {
    if constexpr (runs<G, Stage::softmax>) {
      rises = Stages::raise_maximum(a.scale_log2, s, m, alpha);
      if (rises) {
        device::wgmma_wait<0>();
        device::pin(o);
      }
    }
  }
  /// P and l; O is then in the units of the new maximum.
  LANESCOPE_DEVICE void weigh(const Seam& seam, int tile) {
    if constexpr (runs<G, Stage::softmax>) Stages::weigh(a.scale_log2, s, m, alpha, l, p);
    Rows row_l = l;
    if constexpr (Seam::template shows<SiteId::l>) row_l = Stages::row_sums(l);
    seam(tile, site::m(m), site::alpha(alpha), site::p(p), site::l(row_l));
    if constexpr (runs<G, Stage::pv>) {
      if constexpr (!runs<G, Stage::softmax>) rises = Stages::rescales(alpha);
      if (rises) Stages::rescale_output(alpha, o);
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
  /// issued together, so that P·V runs while the softmax does.
  LANESCOPE_DEVICE void run(const Work& work, const Seam& seam) {
    const Mask mask{a, work.q_begin};
    const int whole = Stages::whole_tiles(warpgroup, mask);
    m.fill(device::minus_infinity);
    l.fill(0.0f);
    o.fill(0.0f);
    if (work.tiles > 0) {
      wait_for_queries();
      seam(0, site::q_smem(smem.q));
      wait_for_keys();
      start_scores(seam, 0);
      device::wgmma_wait<0>();
      finish_scores(seam, mask, whole, 0);
      raise_maximum();
      weigh(seam, 0);
      for (int tile = 1; tile < work.tiles; ++tile) {
        wait_for_keys();
        Turn::take(warpgroup);
        start_scores(seam, tile);
        start_output(seam, tile - 1);
        Turn::pass(warpgroup);
        device::wgmma_wait<groups_of_output>();
        finish_scores(seam, mask, whole, tile);
        raise_maximum();
        finish_output(seam, tile - 1);
        weigh(seam, tile);
      }
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

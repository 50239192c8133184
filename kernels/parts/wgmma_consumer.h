#pragma once

#include "kernels/parts/arguments.h"
#include "kernels/parts/mma_epilogue.h"
#include "kernels/parts/ring.h"
#include "kernels/parts/scaled_inputs.h"
#include "kernels/parts/turns.h"
#include "kernels/parts/wgmma_memory.h"
#include "kernels/parts/wgmma_stages.h"
#include "kernels/trace/at_site.h"
#include "reference/gate.h"

namespace lanescope::kernels {

/// What a lane of a consuming warpgroup holds, and the steps of a tile.
template <Gate G, class Stages, class Seam>
struct WgmmaConsumer {
  using Memory = WgmmaMemory<Stages>;
  using Attention = AttentionOf<typename Stages::Element>;
  using Work = WorkOf<typename Stages::Element>;
  using Item = typename Memory::Item;
  using Output = typename Stages::Output;
  using Rows = typename Stages::Rows;
  using Scores = typename Stages::Scores;
  using Weights = typename Stages::Weights;
  using Turn = Turns<Stages::threads / 128>;
  static constexpr int Bc = Stages::bc, ring = Memory::ring;
  static constexpr bool by_sums = Stages::rescale.by_sums;
  static constexpr bool is_scaled = sizeof(typename Stages::Element) == 1;

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
  Ring<Memory::places_of_q> q;
  Ring<2> next, item;  ///< the item that comes next, and the one at work
  typename Stages::QueryFragments queries;
  Scores s;
  Weights p;
  Rows m, alpha, sum, l;  ///< sum: of P, of this tile; both sums of the lane's columns
  Output o;
  bool rescales;     ///< O of a row of the warp, at this tile
  bool is_steep;     ///< m of the item had to follow
  float own_factor;  ///< the item's, where heads have scales

  LANESCOPE_DEVICE WgmmaConsumer(const Attention& attention, Memory& memory, int own_warpgroup)
      : a(attention), smem(memory), warpgroup(own_warpgroup) {}

  /// What a product of the item's Q and K is multiplied by to be a score in base 2.
  LANESCOPE_DEVICE float factor() const { return is_scaled ? own_factor : a.scale_log2; }

  /// The tiles that the gate has copied: Q, K and V are there, and may be overwritten.
  LANESCOPE_DEVICE void wait_for_queries() {
    if constexpr (runs<G, Stage::qk>) {
      device::mbarrier_wait(smem.q_full[q.slot], q.parity);
    }
  }
  LANESCOPE_DEVICE void leave_queries() {
    if constexpr (runs<G, Stage::qk>) {
      release(smem.q_empty[q.slot]);
      q.advance();
    }
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
    if constexpr (runs<G, Stage::pv>) device::mbarrier_wait(smem.values_full(v.slot), v.parity);
  }
  LANESCOPE_DEVICE void leave_values() {
    if constexpr (runs<G, Stage::pv>) {
      release(smem.values_empty(v.slot));
      v.advance();
    }
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
        rises = Stages::rises_by_sums(Stages::lane_sums(factor(), s, m, [](int, float) {}), m);
      }
      rescales = true;
      device::wgmma_wait<0>();
      device::pin(o);
      Stages::raise(top, rises, m, alpha, l);
    }
  }
  /// P, as long as m need not follow.
  LANESCOPE_DEVICE void weigh() {
    if constexpr (runs<G, Stage::softmax>) sum = Stages::weigh(factor(), s, m, p);
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
      if (by_sums && tile > 0 && has_to_follow(tile)) {
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
    wait_for_values();
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

  /// Issues the scores of an item's first tile.
  LANESCOPE_DEVICE void start_item(const Seam& seam) {
    wait_for_queries();
    seam(0, site::q_smem(smem.q[q.slot]));
    if constexpr (runs<G, Stage::qk> && Stages::holds_queries) {
      Stages::load_queries(smem.q[q.slot], queries);
      leave_queries();
    }
    wait_for_keys();
    start_scores(seam, 0);
  }
  /// The online softmax over the tiles of an item whose first scores are there, up to the last
  /// P·V, which is issued; tiles of K that the warpgroup does not see go by. Q·Kᵀ of a tile and P·V
  /// of the one before are issued together, so that P·V runs while the softmax does. Whether m has
  /// to follow in the tile before is seen between the two: by then all warps have told, and nobody
  /// waits.
  LANESCOPE_DEVICE void run_tiles(const Work& work, const Seam& seam) {
    const int tiles = seen_tiles(work);
    if constexpr (is_scaled) own_factor = score_factor(a, work);
    const Mask mask{a, work.q_begin};
    const Range range{mask, Stages::whole_tiles(warpgroup, mask)};
    clear();
    finish_scores(seam, range, 0);
    set_maximum();
    weigh();
    for (int tile = 1; tile < tiles; ++tile) {
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
    settle(seam, range, tiles - 1, false);
    if constexpr (!Stages::holds_queries) leave_queries();
    start_output(seam, tiles - 1);
    for (int tile = tiles; tile < work.tiles; ++tile) pass_keys(seam, tile);
  }
  LANESCOPE_DEVICE void finish_item(const Item& ended, const Seam& seam) {
    const int tiles = seen_tiles(ended.work);
    finish_output(seam, tiles - 1);
    for (int tile = tiles; tile < ended.work.tiles; ++tile) {
      pass_values(seam, tile);
      show_unseen(seam, tile);
    }
    store(ended.work, seam);
    leave_item();
  }
  /// An item, and those behind it for as long as the warpgroup has scores in them, whose first
  /// scores are issued behind the last P·V of the one before, where their queries are there by
  /// then. Returns the item behind them.
  LANESCOPE_DEVICE const Item& run(const Item& first, const Seam& seam) {
    start_item(seam.of(first.block));
    device::wgmma_wait<0>();
    while (true) {
      const Item& now = smem.item[item.slot];
      run_tiles(now.work, seam.of(now.block));
      if constexpr (!Stages::holds_queries) {
        finish_item(now, seam.of(now.block));
        return next_item();
      }
      const Item& then = next_item();
      if (!has_scores(then)) {
        finish_item(now, seam.of(now.block));
        return then;
      }
      start_item(seam.of(then.block));
      finish_item(now, seam.of(now.block));
    }
  }
  /// An item in which the warpgroup has no scores: its rows see no key, or it has none; the tiles
  /// go by. Returns the item behind it.
  LANESCOPE_DEVICE const Item& skip(const Item& skipped, const Seam& all) {
    const Work& work = skipped.work;
    const Seam seam = all.of(skipped.block);
    clear();
    if (work.tiles > 0) {
      wait_for_queries();
      seam(0, site::q_smem(smem.q[q.slot]));
      leave_queries();
    }
    for (int tile = 0; tile < work.tiles; ++tile) {
      pass_keys(seam, tile);
      pass_values(seam, tile);
      if (has_rows(skipped)) show_unseen(seam, tile);
    }
    if (has_rows(skipped)) store(work, seam);
    leave_item();
    return next_item();
  }
  /// Whether the warpgroup has rows in the item, and these have keys.
  LANESCOPE_DEVICE bool has_rows(const Item& x) const {
    return x.work.q_begin + warpgroup * 64 < a.len_q;
  }
  LANESCOPE_DEVICE bool has_scores(const Item& x) const {
    return x.block >= 0 && has_rows(x) && seen_tiles(x.work) > 0;
  }
  /// Tiles that hold a key which its rows see: behind them, P is 0.
  LANESCOPE_DEVICE int seen_tiles(const Work& work) const {
    return Stages::seen_tiles(warpgroup, Mask{a, work.q_begin}, work.tiles);
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
  /// What the producer says is next. It is there until it is left.
  LANESCOPE_DEVICE const Item& next_item() {
    device::mbarrier_wait(smem.item_full[next.slot], next.parity);
    const Item& then = smem.item[next.slot];
    next.advance();
    return then;
  }
  LANESCOPE_DEVICE void leave_item() {
    release(smem.item_empty[item.slot]);
    item.advance();
  }

 private:
  /// Groups of products that a tile's P·V is.
  static constexpr int groups_of_output = runs<G, Stage::pv> ? 1 : 0;

  LANESCOPE_DEVICE void multiply_keys(int slot) {
    if constexpr (runs<G, Stage::qk> && Stages::holds_queries) {
      Stages::start_qk(queries, smem.k[slot], s);
    } else if constexpr (runs<G, Stage::qk>) {
      Stages::start_qk(warpgroup, smem.q[q.slot], smem.k[slot], s);
    }
  }
  LANESCOPE_DEVICE void clear() {
    m.fill(device::minus_infinity);
    l.fill(0.0f);
    o.fill(0.0f);
    is_steep = false;
  }
  /// O / l and the log-sum-exp of the item's rows.
  LANESCOPE_DEVICE void store(const Work& work, const Seam& seam) {
    if constexpr (runs<G, Stage::epilogue>) {
      MmaEpilogue<Stages>::run(a, work, o, m, Stages::row_sums(l), seam);
    }
  }
  /// The calling warp has done with a tile.
  LANESCOPE_DEVICE static void release(device::Mbarrier& empty) {
    device::warp_sync();  // all its lanes have
    if (device::lane() == 0) device::mbarrier_arrive(empty);
  }
};

}  // namespace lanescope::kernels

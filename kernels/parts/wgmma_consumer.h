#pragma once

#include "kernels/parts/mma_epilogue.h"
#include "kernels/parts/wgmma_steps.h"

namespace lanescope::kernels {

/// A consuming warpgroup: what it does with an item, tile by tile.
template <Gate G, class Stages, class Seam>
struct WgmmaConsumer : WgmmaSteps<G, Stages, Seam> {
  using Steps = WgmmaSteps<G, Stages, Seam>;
  using Work = WorkOf<typename Stages::Element>;
  using Steps::a, Steps::item, Steps::l, Steps::m, Steps::o, Steps::own_factor, Steps::q;
  using Steps::begin_weights, Steps::clear, Steps::finish_output, Steps::finish_scores;
  using Steps::by_sums, Steps::is_scaled, Steps::queries, Steps::smem, Steps::warpgroup;
  using Steps::finish_weights, Steps::hear_sums, Steps::pass_keys, Steps::wait_for_values;
  using Steps::leave_item, Steps::leave_queries, Steps::next_item, Steps::pass_values;
  using Steps::raise_maximum, Steps::set_maximum, Steps::settle, Steps::show_unseen;
  using Steps::start_output, Steps::start_scores, Steps::tell_sums, Steps::wait_for_keys;
  using Steps::Steps;
  using Steps::wait_for_queries, Steps::waits_ahead, Steps::weigh;
  using typename Steps::Item;
  using typename Steps::Range;
  using typename Steps::Turn;

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
  /// of the one before are issued together, so that P·V runs while the softmax begins. Whether m
  /// has to follow in the tile before is seen between the two: by then all warps have told, and
  /// nobody waits.
  LANESCOPE_DEVICE void run_tiles(const Work& work, const Seam& seam) {
    const int tiles = seen_tiles(work);
    if constexpr (is_scaled) own_factor = score_factor(a, work);
    const Mask mask{a, work.q_begin};
    const Range range{mask, Stages::whole_tiles(warpgroup, mask)};
    clear();
    finish_scores(seam, range, 0);
    set_maximum();
    weigh();
    if constexpr (waits_ahead) wait_for_values();
    for (int tile = 1; tile < tiles; ++tile) {
      wait_for_keys();
      Turn::take(warpgroup);
      hear_sums(tile - 1);
      start_scores(seam, tile);
      settle(seam, range, tile - 1, true);
      start_output(seam, tile - 1);
      Turn::pass(warpgroup);
      device::wgmma_wait<groups_of_output>();
      finish_scores(seam, range, tile);
      raise_maximum();
      begin_weights();
      finish_output(seam, tile - 1);
      finish_weights();
      tell_sums(tile);
    }
    if constexpr (by_sums) Turn::meet(warpgroup);
    hear_sums(tiles - 1);
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
  /// Whether the warpgroup has rows in the item.
  LANESCOPE_DEVICE bool has_rows(const Item& x) const {
    return x.work.q_begin + warpgroup * 64 < a.len_q;
  }
  /// Whether it has, and these have keys.
  LANESCOPE_DEVICE bool has_scores(const Item& x) const {
    return x.block >= 0 && has_rows(x) && seen_tiles(x.work) > 0;
  }
  /// Tiles that hold a key which its rows see: behind them, P is 0.
  LANESCOPE_DEVICE int seen_tiles(const Work& work) const {
    return Stages::seen_tiles(warpgroup, Mask{a, work.q_begin}, work.tiles);
  }

 private:
  /// Groups of products that a tile's P·V is.
  static constexpr int groups_of_output = runs<G, Stage::pv> ? 1 : 0;

  /// O / l and the log-sum-exp of the item's rows.
  LANESCOPE_DEVICE void store(const Work& work, const Seam& seam) {
    if constexpr (runs<G, Stage::epilogue>) {
      MmaEpilogue<Stages>::run(a, work, o, m, Stages::row_sums(l), seam);
    }
  }
};

}  // namespace lanescope::kernels

#pragma once

#include <cstdint>

#include "kernels/device/hopper.h"
#include "kernels/parts/work_items.h"

namespace lanescope::kernels {

/// The shared memory of a warp-specialised kernel on `Stages` (kernels/parts/wgmma_stages.h): what
/// its producer fills and its consumers empty, and the mbarriers that say so. A tile is `full` when
/// its bytes have come, `empty` when every consuming warp is done with it.
template <class Stages>
struct WgmmaMemory {
  using Queries = typename Stages::Queries;
  using Keys = typename Stages::Keys;
  static constexpr int most_bytes = 227 * 1024 - 1024;  ///< of a block, but for what is small
  static constexpr int fitting = (most_bytes - Queries::bytes) / (2 * Keys::bytes);
  static constexpr int ring = fitting < 4 ? fitting : 4;  ///< tiles of K and of V
  static_assert(ring >= 2);

  Queries q;
  Keys k[ring];
  Keys v[ring];
  device::Mbarrier q_full[1], q_empty[1];
  device::Mbarrier k_full[ring], k_empty[ring], v_full[ring], v_empty[ring];
  device::Mbarrier item_full[1], item_empty[1];
  Item item[1];  ///< that the block works on next
  /// Of each warp, whether its sums of P are too large, of tiles by turns.
  std::uint32_t l_too_large[2][Stages::warps];

  /// Tells the memory checker the names of its tiles.
  template <class Visit>
  void name_tiles(Visit&& visit) {
    constexpr const char* names[][2] = {
        {"k[0]", "v[0]"}, {"k[1]", "v[1]"}, {"k[2]", "v[2]"}, {"k[3]", "v[3]"}};
    static_assert(ring <= 4);
    visit("q", q);
    for (int i = 0; i < ring; ++i) {
      visit(names[i][0], k[i]);
      visit(names[i][1], v[i]);
    }
    visit("q_full", q_full);
    visit("q_empty", q_empty);
    visit("k_full", k_full);
    visit("k_empty", k_empty);
    visit("v_full", v_full);
    visit("v_empty", v_empty);
    visit("item_full", item_full);
    visit("item_empty", item_empty);
    visit("item", item);
    visit("l_too_large", l_too_large);
  }

  /// By one lane, before any other comes to them.
  LANESCOPE_DEVICE void init_barriers() {
    device::mbarrier_init(q_full[0], 1);
    device::mbarrier_init(q_empty[0], Stages::warps);
    device::mbarrier_init(item_full[0], 1);
    device::mbarrier_init(item_empty[0], Stages::warps);
    LANESCOPE_UNROLL
    for (int i = 0; i < ring; ++i) {
      device::mbarrier_init(k_full[i], 1);
      device::mbarrier_init(v_full[i], 1);
      device::mbarrier_init(k_empty[i], Stages::warps);
      device::mbarrier_init(v_empty[i], Stages::warps);
    }
    device::fence_mbarrier_init();
  }
};

}  // namespace lanescope::kernels

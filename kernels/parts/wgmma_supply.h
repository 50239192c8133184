#pragma once

#include "kernels/parts/ring.h"
#include "kernels/parts/wgmma_memory.h"
#include "reference/gate.h"

namespace lanescope::kernels {

/// What a consuming warpgroup gets from the producer, and where in its rings the warpgroup is: it
/// waits for a tile or an item, and leaves it, in the order in which they come. Of a gate without
/// the stage that reads them, tiles are neither copied nor waited for.
template <Gate G, class Stages>
struct WgmmaSupply {
  using Memory = WgmmaMemory<Stages>;
  using Item = typename Memory::Item;

  Memory& smem;
  Ring<Memory::places_of_k> k;     ///< the tile of K whose scores come next
  Ring<Memory::places_of_k> kept;  ///< the one whose scores may be needed once more
  Ring<Memory::places_of_v> v;
  Ring<Memory::places_of_q> q;
  Ring<2> next, item;  ///< the item that comes next, and the one at work

  LANESCOPE_DEVICE explicit WgmmaSupply(Memory& memory) : smem(memory) {}

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
  /// The tile of V behind the one at hand.
  LANESCOPE_DEVICE void wait_for_next_values() {
    if constexpr (runs<G, Stage::pv>) {
      const auto then = v.next();
      device::mbarrier_wait(smem.values_full(then.slot), then.parity);
    }
  }
  LANESCOPE_DEVICE void leave_values() {
    if constexpr (runs<G, Stage::pv>) {
      release(smem.values_empty(v.slot));
      v.advance();
    }
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
};

}  // namespace lanescope::kernels

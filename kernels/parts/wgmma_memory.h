#pragma once

#include <cstdint>

#include "kernels/device/hopper.h"
#include "kernels/parts/scaled_inputs.h"
#include "kernels/parts/transposed_values.h"
#include "kernels/parts/work_items.h"

namespace lanescope::kernels {

/// The shared memory of a warp-specialised kernel on `Stages` (kernels/parts/wgmma_stages.h): what
/// its producer fills and its consumers empty, and the mbarriers that say so. A tile is `full` when
/// its bytes have come, `empty` when every warp that reads it is done with it.
template <class Stages>
struct WgmmaMemorySizes {
  using Queries = typename Stages::Queries;
  using Keys = typename Stages::Keys;
  using Values = typename Stages::Values;
  static constexpr int most_bytes = 227 * 1024 - 1024;  ///< of a block, but for what is small
  /// A tile of K and one of V, as it comes and as it is read.
  static constexpr int pair_bytes =
      2 * Keys::bytes + (Stages::transposes_values ? Values::bytes : 0);
  static constexpr int left_beside(int places_of_q) {
    return most_bytes - places_of_q * Queries::bytes;
  }
  /// The queries of the next item come early where a second place costs no tile.
  static constexpr int places_of_q =
      !Stages::holds_queries && left_beside(2) / pair_bytes >= 4 ? 2 : 1;
  static constexpr int pairs = left_beside(places_of_q) / pair_bytes;
  static constexpr int places_of_v = pairs < 4 ? pairs : 4;
  /// Where a tile of K is kept until its P is settled, the next but one has to come all the same.
  static constexpr bool has_another_k =
      Stages::rescale.by_sums && pairs < 4 &&
      left_beside(places_of_q) - pairs * pair_bytes >= Keys::bytes;
  static constexpr int places_of_k = has_another_k ? places_of_v + 1 : places_of_v;
  static_assert(places_of_v >= 2);
};

template <class Stages>
struct WgmmaMemory
    : WgmmaMemorySizes<Stages>,
      TransposedRing<Stages, WgmmaMemorySizes<Stages>::places_of_v, Stages::transposes_values> {
  using Sizes = WgmmaMemorySizes<Stages>;
  using typename Sizes::Keys;
  using typename Sizes::Queries;
  using Item = WorkItem<WorkOf<typename Stages::Element>>;
  using Sizes::places_of_q, Sizes::places_of_k, Sizes::places_of_v;

  Queries q[places_of_q];
  Keys k[places_of_k];
  Keys v[places_of_v];
  device::Mbarrier q_full[places_of_q], q_empty[places_of_q];
  device::Mbarrier k_full[places_of_k], k_empty[places_of_k];
  device::Mbarrier v_full[places_of_v], v_empty[places_of_v];
  device::Mbarrier item_full[2], item_empty[2];
  Item item[2];  ///< that the block works on, and the next
  /// Of each warpgroup, whether a lane's sum of P is too large, of tiles by turns; 0 until one is.
  std::uint32_t l_too_large[2][Stages::warps / 4];

  /// Tells the memory checker the names of its tiles.
  template <class Visit>
  void name_tiles(Visit&& visit) {
    constexpr const char* names[][3] = {{"k[0]", "v[0]", "transposed[0]"},
                                        {"k[1]", "v[1]", "transposed[1]"},
                                        {"k[2]", "v[2]", "transposed[2]"},
                                        {"k[3]", "v[3]", "transposed[3]"}};
    static_assert(places_of_k <= 4);
    visit("q[0]", q[0]);
    if constexpr (places_of_q == 2) visit("q[1]", q[1]);
    for (int i = 0; i < places_of_k; ++i) visit(names[i][0], k[i]);
    for (int i = 0; i < places_of_v; ++i) {
      visit(names[i][1], v[i]);
      if constexpr (Stages::transposes_values) visit(names[i][2], this->transposed[i]);
    }
    if constexpr (Stages::transposes_values) {
      visit("transposed_full", this->transposed_full);
      visit("transposed_empty", this->transposed_empty);
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
  LANESCOPE_DEVICE void set_up() {
    LANESCOPE_UNROLL
    for (int i = 0; i < Stages::warps / 4; ++i) l_too_large[0][i] = l_too_large[1][i] = 0;
    constexpr int consumers = Stages::warps;
    init(q_full, 1, q_empty, consumers);
    if constexpr (Stages::transposes_values) {
      constexpr int transposers = ValueTransposer<Stages>::warps;
      init(item_full, 1, item_empty, consumers + transposers);
      init(k_full, 1, k_empty, consumers);
      init(v_full, 1, v_empty, transposers);
      init(this->transposed_full, transposers, this->transposed_empty, consumers);
    } else {
      init(item_full, 1, item_empty, consumers);
      init(k_full, 1, k_empty, consumers);
      init(v_full, 1, v_empty, consumers);
    }
    device::fence_mbarrier_init();
  }

  /// A tile of V as P·V reads it, and its mbarriers.
  LANESCOPE_DEVICE auto& values(int slot) {
    if constexpr (Stages::transposes_values) {
      return this->transposed[slot];
    } else {
      return v[slot];
    }
  }
  LANESCOPE_DEVICE device::Mbarrier& values_full(int slot) {
    if constexpr (Stages::transposes_values) {
      return this->transposed_full[slot];
    } else {
      return v_full[slot];
    }
  }
  LANESCOPE_DEVICE device::Mbarrier& values_empty(int slot) {
    if constexpr (Stages::transposes_values) {
      return this->transposed_empty[slot];
    } else {
      return v_empty[slot];
    }
  }

 private:
  /// `fillers` and `emptiers`: lanes that arrive.
  template <int Places>
  LANESCOPE_DEVICE static void init(device::Mbarrier (&full)[Places], int fillers,
                                    device::Mbarrier (&empty)[Places], int emptiers) {
    LANESCOPE_UNROLL
    for (int i = 0; i < Places; ++i) {
      device::mbarrier_init(full[i], fillers);
      device::mbarrier_init(empty[i], emptiers);
    }
  }
};

}  // namespace lanescope::kernels

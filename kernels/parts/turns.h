#pragma once

#include "kernels/device/hopper.h"

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

}  // namespace lanescope::kernels

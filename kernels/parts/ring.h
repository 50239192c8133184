#pragma once

#include "kernels/device/hopper.h"

namespace lanescope::kernels {

/// Place in a ring of `Slots` places, and the parity of the phases of its mbarriers: those of the
/// first time round are 0.
template <int Slots>
struct Ring {
  int slot = 0;
  int parity = 0;

  LANESCOPE_DEVICE void advance() {
    if (++slot == Slots) {
      slot = 0;
      parity ^= 1;
    }
  }
  LANESCOPE_DEVICE Ring next() const {
    Ring then = *this;
    then.advance();
    return then;
  }
};

/// The calling warp is done with what `empty` is of.
LANESCOPE_DEVICE void release(device::Mbarrier& empty) {
  device::warp_sync();  // all its lanes are
  if (device::lane() == 0) device::mbarrier_arrive(empty);
}

}  // namespace lanescope::kernels

// Under the memory checker: one barrier taken for two things at once.

#include <algorithm>
#include <bit>
#include <string>

#include "debug/ptx/block.h"

namespace lanescope::ptx {

void Block::demand_order(Warp& warp, int id, Barrier::Arrival& arrival) {
  if (!checker_) return;
  const simt::Clocks& clocks = checker_->clocks();
  const int first = std::countr_zero(arrival.mask);
  arrival.epoch = clocks.now(warp.thread(first));
  arrival.pc = warp.pc();
  const auto is_known = [&](const Barrier::Arrival& earlier) {
    for (std::uint32_t left = arrival.mask; left != 0; left &= left - 1) {
      if (clocks.past(warp.thread(std::countr_zero(left))).holds(earlier.epoch)) return true;
    }
    return false;
  };
  for (const Barrier::Arrival& earlier : opened_[static_cast<std::size_t>(id)]) {
    if (earlier.warp == arrival.warp || is_known(earlier)) continue;
    warp.fail(first,
              "nothing orders this arrival at barrier " + std::to_string(id) +
                  " behind that of warp " + std::to_string(earlier.warp) +
                  ", with which it opened before; where it comes sooner, it counts there:\n" +
                  "  " + program_.describe(earlier.pc));
  }
}

}  // namespace lanescope::ptx

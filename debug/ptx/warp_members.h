#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "debug/ptx/warp.h"

/// The lanes that an instruction of a warp names, and those that come to it together.
namespace lanescope::ptx {

using Members = std::array<std::uint32_t, 32>;

inline Members members_of(Warp& warp, Place place) {
  Members members;
  std::memcpy(members.data(), warp.lanes<std::uint32_t>(place), sizeof members);
  return members;
}

/// Runs f(lanes of the split with the same members) for each such set.
template <class F>
void each_group(Warp& warp, const Members& members, F&& f) {
  for (std::uint32_t left = warp.split().mask; left != 0;) {
    const int first = std::countr_zero(left);
    std::uint32_t same = 0;
    for (int lane = first; lane < 32; ++lane) {
      if (left >> lane & 1 &&
          members[static_cast<std::size_t>(lane)] == members[static_cast<std::size_t>(first)]) {
        same |= 1u << lane;
      }
    }
    left &= ~same;
    f(same);
  }
}

inline void set_predicate(Warp& warp, Place place, std::uint32_t mask, std::uint32_t bits) {
  std::uint32_t& d = warp.predicate(place);
  d = (d & ~mask) | (bits & mask);
}

}  // namespace lanescope::ptx

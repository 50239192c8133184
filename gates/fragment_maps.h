#pragma once

#include <cstdint>
#include <string>

#include "gates/module.h"

namespace lanescope {

/// Which element of its matrix each (lane, element) of a fragment is, as row · 16 + column.
struct FragmentMaps {
  std::uint16_t mma_a[32][8];   ///< of mma.m16n8k16: 16×16
  std::uint16_t mma_b[32][4];   ///< 16×8
  std::uint16_t mma_c[32][4];   ///< 16×8
  std::uint16_t wmma_c[32][8];  ///< accumulator of wmma.m16n16k16: 16×16
};

/// What the module maps.sim or maps.cuda exports: the maps as its backend shows them.
using MeasureFragmentMaps = ModuleStatus(FragmentMaps* maps, char* message, int message_bytes);

/// The maps as `backend` ("sim" or "cuda") shows them. Throws Error where it cannot be asked.
FragmentMaps measured_fragment_maps(const std::string& backend);
/// The maps that the kernels count on (kernels/device/fragments.h).
FragmentMaps declared_fragment_maps();

/// Calls visit(name, map [32][elements]) for each of the maps.
template <class Visit>
void for_each_fragment(const FragmentMaps& maps, Visit&& visit) {
  visit("mma_a", maps.mma_a);
  visit("mma_b", maps.mma_b);
  visit("mma_c", maps.mma_c);
  visit("wmma_c", maps.wmma_c);
}

}  // namespace lanescope

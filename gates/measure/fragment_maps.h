#pragma once

#include <string>

#include "gates/module/maps.h"

namespace lanescope {

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

#pragma once

#include <cstdint>

#include "gates/module/module.h"

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

}  // namespace lanescope

#pragma once

// What the modules maps.sim and maps.cuda share.

#include "gates/module/maps.h"
#include "kernels/device/device.h"
#include "kernels/device/tiles.h"

namespace lanescope {

struct MapMemory {
  alignas(32) device::Tile<device::f16, 16, 16> places;  ///< row · 16 + column
  alignas(32) device::Tile<device::f16, 16, 16> identity;
};

LANESCOPE_DEVICE std::uint16_t place_in_half(const std::uint32_t* registers, int i) {
  const auto bits = static_cast<std::uint16_t>(registers[i / 2] >> (16 * (i % 2)));
  return static_cast<std::uint16_t>(device::widen(device::f16{bits}));
}

/// One warp. A and B hold a matrix of places as ldmatrix loads it; the accumulators hold the
/// product of that matrix and the identity, which is the places again. Every lane tells what it
/// holds.
LANESCOPE_DEVICE void measure_maps(MapMemory& smem, FragmentMaps& maps) {
  const int lane = device::lane();
  for (int i = lane; i < 256; i += 32) {
    smem.places.at(i / 16, i % 16) = device::narrow<device::f16>(static_cast<float>(i));
    smem.identity.at(i / 16, i % 16) = device::narrow<device::f16>(i / 16 == i % 16 ? 1.0f : 0.0f);
  }
  device::warp_sync();  // both matrices are complete
  const int row = lane % 16, col = lane / 16 * 8;
  std::uint32_t a[4], b[4], identity[4];  // of b and identity: the left half in the first two
  device::ldmatrix_x4(a, &smem.places.at(row, col));
  device::ldmatrix_x4_trans(b, &smem.places.at(row, col));
  device::ldmatrix_x4_trans(identity, &smem.identity.at(row, col));
  float c[4] = {};
  device::mma_m16n8k16<device::f16>(c, a, identity[0], identity[1]);

  device::WmmaLeft<device::f16, device::Major::row> left;
  device::WmmaRight<device::f16, device::Major::row> right;
  float wide[8] = {};
  device::load_matrix_sync(left, &smem.places.at(0, 0), smem.places.stride);
  device::load_matrix_sync(right, &smem.identity.at(0, 0), smem.identity.stride);
  device::mma_sync(wide, left, right);

  LANESCOPE_UNROLL
  for (int i = 0; i < 8; ++i) {
    maps.mma_a[lane][i] = place_in_half(a, i);
    maps.wmma_c[lane][i] = static_cast<std::uint16_t>(wide[i]);
  }
  LANESCOPE_UNROLL
  for (int i = 0; i < 4; ++i) {
    maps.mma_b[lane][i] = place_in_half(b, i);
    maps.mma_c[lane][i] = static_cast<std::uint16_t>(c[i]);
  }
}

}  // namespace lanescope

extern "C" __attribute__((visibility("default")))
lanescope::MeasureFragmentMaps measure_fragment_maps;

#pragma once

// What the modules probes.sim and probes.cuda share.

#include "gates/module/probes.h"
#include "kernels/device/device.h"

namespace lanescope {

template <class T>
LANESCOPE_DEVICE void probe_product(ProductProbe& p) {
  const int lane = device::lane();
  std::uint32_t a[4] = {};
  LANESCOPE_UNROLL
  for (int i = 0; i < 8; ++i) {
    const device::Coordinate at = device::a_m16k16(lane, i);
    a[i / 2] |= static_cast<std::uint32_t>(p.a[at.row][at.col]) << (16 * (i % 2));
  }
  for (int first = 0; first < 16; first += 8) {
    std::uint32_t b[2] = {};
    float c[4];
    LANESCOPE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const device::Coordinate of_b = device::b_k16n8(lane, i), of_c = device::c_m16n8(lane, i);
      b[i / 2] |= static_cast<std::uint32_t>(p.b[of_b.row][first + of_b.col]) << (16 * (i % 2));
      c[i] = p.c[of_c.row][first + of_c.col];
    }
    device::mma_m16n8k16<T>(c, a, b[0], b[1]);
    LANESCOPE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const device::Coordinate at = device::c_m16n8(lane, i);
      p.mma[at.row][first + at.col] = c[i];
    }
  }
  device::WmmaLeft<T, device::Major::row> left;
  device::WmmaRight<T, device::Major::row> right;
  float wide[8];
  device::load_matrix_sync(left, reinterpret_cast<const T*>(p.a), 16);
  device::load_matrix_sync(right, reinterpret_cast<const T*>(p.b), 16);
  LANESCOPE_UNROLL
  for (int i = 0; i < 8; ++i) {
    const device::Coordinate at = device::c_m16n16(lane, i);
    wide[i] = p.c[at.row][at.col];
  }
  device::mma_sync(wide, left, right);
  LANESCOPE_UNROLL
  for (int i = 0; i < 8; ++i) {
    const device::Coordinate at = device::c_m16n16(lane, i);
    p.wmma[at.row][at.col] = wide[i];
  }
}

LANESCOPE_DEVICE void probe_functions(FunctionProbe& p) {
  p.ex2 = device::ex2(p.x);
  p.lg2 = device::lg2(p.x);
  p.max = device::max(p.x, p.y);
  p.f16 = device::narrow<device::f16>(p.x).bits;
  p.bf16 = device::narrow<device::bf16>(p.x).bits;
  const auto low = static_cast<std::uint16_t>(device::bits_of(p.x));
  p.from_f16 = device::widen(device::f16{low});
  p.from_bf16 = device::widen(device::bf16{low});
}

/// Blocks of a warp: one per product, then one per 32 functions.
inline int probe_blocks(const ProbeLaunch& run) {
  return run.product_count + (run.function_count + 31) / 32;
}

LANESCOPE_DEVICE void probe_lane(const ProbeLaunch& run) {
  const int block = static_cast<int>(device::block());
  if (block < run.product_count) {
    ProductProbe& p = run.products[block];
    if (p.type == ElementType::f16) {
      probe_product<device::f16>(p);
    } else {
      probe_product<device::bf16>(p);
    }
  } else {
    const int i = (block - run.product_count) * 32 + device::lane();
    if (i < run.function_count) probe_functions(run.functions[i]);
  }
}

}  // namespace lanescope

extern "C" __attribute__((visibility("default"))) lanescope::RunProbes run_probes;

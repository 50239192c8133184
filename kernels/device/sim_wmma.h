#pragma once

#include <cstdint>

#include "debug/simt/wmma.h"
#include "kernels/device/sim.h"

namespace lanescope::device {

// Warp matrix functions of 16×16×16 products (CUDA C++ Programming Guide, "Warp Matrix Functions").
// Addresses in memory are aligned to 32 bytes, a row or column begins every `stride` elements.

/// A, 16×16, read from memory of order M; which element a lane holds is not specified.
template <class T, Major M>
struct WmmaLeft {
  simt::WmmaOperand opaque;
};
/// B, likewise.
template <class T, Major M>
struct WmmaRight {
  simt::WmmaOperand opaque;
};

template <template <class, Major> class Operand, class T, Major M>
LANESCOPE_DEVICE void load_matrix_sync(Operand<T, M>& x, const T* from, int stride,
                                       Here here = std::source_location::current()) {
  simt::wmma_load(x.opaque, from, stride, M == Major::col, here);
}
/// An accumulator from fp32 memory, row by row.
LANESCOPE_DEVICE void load_matrix_sync(float (&c)[8], const float* from, int stride,
                                       Here here = std::source_location::current()) {
  simt::wmma_load(c, from, stride, here);
}
/// An accumulator to fp32 memory, row by row.
LANESCOPE_DEVICE void store_matrix_sync(float* to, const float (&c)[8], int stride,
                                        Here here = std::source_location::current()) {
  simt::wmma_store(to, c, stride, here);
}

/// c += a·b, 16×16×16, T elements, fp32 accumulate.
template <class T, Major A, Major B>
LANESCOPE_DEVICE void mma_sync(float (&c)[8], const WmmaLeft<T, A>& a, const WmmaRight<T, B>& b,
                               Here here = std::source_location::current()) {
  simt::wmma_multiply(T::type, c, a.opaque, b.opaque, here);
}

}  // namespace lanescope::device

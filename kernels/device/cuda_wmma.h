#pragma once

#include <mma.h>

#include <type_traits>

#include "kernels/device/cuda.h"

namespace lanescope::device {

// Warp matrix functions of 16×16×16 products (CUDA C++ Programming Guide, "Warp Matrix Functions").
// Addresses in memory are aligned to 32 bytes, a row or column begins every `stride` elements.

template <class T>
using CudaNumber = std::conditional_t<std::is_same_v<T, f16>, __half, __nv_bfloat16>;
template <class Use, class T, Major M>
using CudaFragment = nvcuda::wmma::fragment<
    Use, 16, 16, 16, CudaNumber<T>,
    std::conditional_t<M == Major::row, nvcuda::wmma::row_major, nvcuda::wmma::col_major>>;
using CudaAccumulator = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;
static_assert(CudaAccumulator::num_elements == 8);

/// A, 16×16, read from memory of order M; which element a lane holds is not specified.
template <class T, Major M>
struct WmmaLeft {
  CudaFragment<nvcuda::wmma::matrix_a, T, M> opaque;
};
/// B, likewise.
template <class T, Major M>
struct WmmaRight {
  CudaFragment<nvcuda::wmma::matrix_b, T, M> opaque;
};

template <template <class, Major> class Operand, class T, Major M>
LANESCOPE_DEVICE void load_matrix_sync(Operand<T, M>& x, const T* from, int stride, Here = {}) {
  nvcuda::wmma::load_matrix_sync(x.opaque, reinterpret_cast<const CudaNumber<T>*>(from), stride);
}

/// An accumulator's elements are plain registers to a kernel; nvcuda's fragment is a view of them.
LANESCOPE_DEVICE CudaAccumulator fragment_of(const float (&c)[8]) {
  CudaAccumulator x;
  LANESCOPE_UNROLL
  for (int i = 0; i < 8; ++i) x.x[i] = c[i];
  return x;
}
LANESCOPE_DEVICE void take_elements(float (&c)[8], const CudaAccumulator& x) {
  LANESCOPE_UNROLL
  for (int i = 0; i < 8; ++i) c[i] = x.x[i];
}

/// An accumulator from fp32 memory, row by row.
LANESCOPE_DEVICE void load_matrix_sync(float (&c)[8], const float* from, int stride, Here = {}) {
  CudaAccumulator x;
  nvcuda::wmma::load_matrix_sync(x, from, stride, nvcuda::wmma::mem_row_major);
  take_elements(c, x);
}
/// An accumulator to fp32 memory, row by row.
LANESCOPE_DEVICE void store_matrix_sync(float* to, const float (&c)[8], int stride, Here = {}) {
  nvcuda::wmma::store_matrix_sync(to, fragment_of(c), stride, nvcuda::wmma::mem_row_major);
}

/// c += a·b, 16×16×16, T elements, fp32 accumulate.
template <class T, Major A, Major B>
LANESCOPE_DEVICE void mma_sync(float (&c)[8], const WmmaLeft<T, A>& a, const WmmaRight<T, B>& b,
                               Here = {}) {
  CudaAccumulator x = fragment_of(c);
  nvcuda::wmma::mma_sync(x, a.opaque, b.opaque, x);
  take_elements(c, x);
}

}  // namespace lanescope::device

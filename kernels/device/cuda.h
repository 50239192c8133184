#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "kernels/device/numbers.h"
#include "kernels/device/portable.h"

namespace lanescope::device {

/// The SIMT machine's place in the source; the GPU has no use for it.
struct Here {};

LANESCOPE_DEVICE int thread() { return static_cast<int>(threadIdx.x); }
LANESCOPE_DEVICE int lane() { return static_cast<int>(threadIdx.x % 32); }
LANESCOPE_DEVICE int warp() { return static_cast<int>(threadIdx.x / 32); }
LANESCOPE_DEVICE std::int64_t block() { return blockIdx.x; }
LANESCOPE_DEVICE std::int64_t block_count() { return gridDim.x; }

LANESCOPE_DEVICE void block_sync(Here = {}) { __syncthreads(); }
LANESCOPE_DEVICE void warp_sync(unsigned mask = full_warp, Here = {}) { __syncwarp(mask); }

template <class V>
LANESCOPE_DEVICE V shfl(V value, int source, unsigned mask = full_warp, Here = {}) {
  return __shfl_sync(mask, value, source);
}
template <class V>
LANESCOPE_DEVICE V shfl_xor(V value, int distance, unsigned mask = full_warp, Here = {}) {
  return __shfl_xor_sync(mask, value, distance);
}
template <class V>
LANESCOPE_DEVICE V shfl_up(V value, int distance, unsigned mask = full_warp, Here = {}) {
  return __shfl_up_sync(mask, value, distance);
}
template <class V>
LANESCOPE_DEVICE V shfl_down(V value, int distance, unsigned mask = full_warp, Here = {}) {
  return __shfl_down_sync(mask, value, distance);
}
LANESCOPE_DEVICE unsigned ballot(bool predicate, unsigned mask = full_warp, Here = {}) {
  return __ballot_sync(mask, predicate);
}

LANESCOPE_DEVICE std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// cp.async of 16 bytes from global to shared memory, zeros where not `valid` (PTX ISA, cp.async).
LANESCOPE_DEVICE void copy_async_16(void* to_shared, const void* from, bool valid, Here = {}) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
               "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
LANESCOPE_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most N of this thread's committed groups are under way.
template <int N>
LANESCOPE_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// Four 8×8 matrices of 16-bit elements; lane 8·i + j gives the address of row j of matrix i, and
/// register i receives matrix i (PTX ISA, ldmatrix).
LANESCOPE_DEVICE void ldmatrix_x4(std::uint32_t (&r)[4], const void* row, Here = {}) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
/// The same, each matrix transposed.
LANESCOPE_DEVICE void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row, Here = {}) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// c += a·b, 16×8×16, T elements, fp32 accumulate (PTX ISA, mma.sync.m16n8k16).
template <class T>
LANESCOPE_DEVICE void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1, Here = {}) {
  if constexpr (std::is_same_v<T, f16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

LANESCOPE_DEVICE float widen(f16 x) { return __half2float(__ushort_as_half(x.bits)); }
LANESCOPE_DEVICE float widen(bf16 x) { return __bfloat162float(__ushort_as_bfloat16(x.bits)); }

/// Two e4m3 elements as two f16 in one register, in the same order: exact, a NaN becomes 0x7fff.
/// From sm_89 on (PTX ISA, cvt.rn.f16x2.e4m3x2).
LANESCOPE_DEVICE std::uint32_t e4m3x2_to_f16x2(std::uint16_t pair) {
  std::uint32_t r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(pair));
  return r;
}

/// Rounds to nearest even.
template <class T>
LANESCOPE_DEVICE T narrow(float x) {
  if constexpr (std::is_same_v<T, f16>) {
    return {__half_as_ushort(__float2half_rn(x))};
  } else {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  }
}
/// Two elements in one register, `low` in the low half, each rounded to nearest even.
template <class T>
LANESCOPE_DEVICE std::uint32_t pack(float low, float high) {
  std::uint32_t r;
  if constexpr (std::is_same_v<T, f16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  }
  return r;
}

/// Four elements in one register, the first in the lowest byte, each rounded to nearest even; ±448
/// where it is beyond (PTX ISA, cvt.rn.satfinite.e4m3x2.f32).
LANESCOPE_DEVICE std::uint32_t pack_e4m3(float x0, float x1, float x2, float x3) {
  std::uint32_t r;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}\n"
      : "=r"(r)
      : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
  return r;
}
/// Byte i of the result is byte `selector` >> 4·i & 7 of the eight of a and b, a's first
/// (PTX ISA, prmt).
LANESCOPE_DEVICE std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b,
                                             std::uint32_t selector) {
  return __byte_perm(a, b, selector);
}

LANESCOPE_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
LANESCOPE_DEVICE float max(float a, float b) { return fmaxf(a, b); }
/// to += x as one access, whoever else adds to it (CUDA C++ Programming Guide, atomicAdd). The
/// order in which lanes come is not specified.
LANESCOPE_DEVICE void atomic_add(float& to, float x) { atomicAdd(&to, x); }
/// to = x in shared memory, whoever else stores so at the same time: one of these values stays, and
/// who meets them afterwards reads it (PTX ISA, st.relaxed).
LANESCOPE_DEVICE void store_relaxed(std::uint32_t& to, std::uint32_t x) {
  asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(shared_address(&to)), "r"(x) : "memory");
}
/// 0, 1, ... in the order in which lanes of the whole grid ask, once each: `all` times in a launch,
/// so that the next launch starts from 0 again (CUDA C++ Programming Guide, atomicInc).
LANESCOPE_DEVICE int next_ticket(int all) {
  static unsigned given = 0;
  return static_cast<int>(atomicInc(&given, static_cast<unsigned>(all) - 1));
}
/// 2^x (PTX ISA, ex2.approx.ftz.f32).
LANESCOPE_DEVICE float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// log2(x) (PTX ISA, lg2.approx.ftz.f32).
LANESCOPE_DEVICE float lg2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

LANESCOPE_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
LANESCOPE_DEVICE std::uint32_t bits_of(std::uint32_t x) { return x; }
template <class E>
LANESCOPE_DEVICE E from_bits(std::uint32_t bits) {
  if constexpr (std::is_same_v<E, float>) {
    return __uint_as_float(bits);
  } else {
    return bits;
  }
}

}  // namespace lanescope::device

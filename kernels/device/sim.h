#pragma once

#include <bit>
#include <cstdint>
#include <cstdio>
#include <source_location>
#include <type_traits>

#include "debug/simt/lane.h"
#include "debug/simt/numerics.h"
#include "kernels/device/numbers.h"
#include "kernels/device/portable.h"

namespace lanescope::device {

using simt::Here;

LANESCOPE_DEVICE int thread() { return simt::thread_index(); }
LANESCOPE_DEVICE int lane() { return simt::thread_index() % 32; }
LANESCOPE_DEVICE int warp() { return simt::thread_index() / 32; }
LANESCOPE_DEVICE std::int64_t block() { return simt::block_index(); }
LANESCOPE_DEVICE std::int64_t block_count() { return simt::block_count(); }

LANESCOPE_DEVICE void block_sync(Here here = std::source_location::current()) {
  simt::block_barrier(here);
}
LANESCOPE_DEVICE void warp_sync(unsigned mask = full_warp,
                                Here here = std::source_location::current()) {
  simt::warp_barrier(mask, here);
}

template <class V>
LANESCOPE_DEVICE V shfl(V value, int source, unsigned mask = full_warp,
                        Here here = std::source_location::current()) {
  return std::bit_cast<V>(
      simt::shuffle(simt::Shuffle::index, std::bit_cast<std::uint32_t>(value), source, mask, here));
}
template <class V>
LANESCOPE_DEVICE V shfl_xor(V value, int distance, unsigned mask = full_warp,
                            Here here = std::source_location::current()) {
  return std::bit_cast<V>(simt::shuffle(simt::Shuffle::butterfly,
                                        std::bit_cast<std::uint32_t>(value), distance, mask, here));
}
template <class V>
LANESCOPE_DEVICE V shfl_up(V value, int distance, unsigned mask = full_warp,
                           Here here = std::source_location::current()) {
  return std::bit_cast<V>(
      simt::shuffle(simt::Shuffle::up, std::bit_cast<std::uint32_t>(value), distance, mask, here));
}
template <class V>
LANESCOPE_DEVICE V shfl_down(V value, int distance, unsigned mask = full_warp,
                             Here here = std::source_location::current()) {
  return std::bit_cast<V>(simt::shuffle(simt::Shuffle::down, std::bit_cast<std::uint32_t>(value),
                                        distance, mask, here));
}
LANESCOPE_DEVICE unsigned ballot(bool predicate, unsigned mask = full_warp,
                                 Here here = std::source_location::current()) {
  return simt::ballot(predicate, mask, here);
}

/// cp.async of 16 bytes from global to shared memory, zeros where not `valid` (PTX ISA, cp.async).
/// The bytes arrive at the latest legal moment: in the wait that covers them.
LANESCOPE_DEVICE void copy_async_16(void* to_shared, const void* from, bool valid,
                                    Here here = std::source_location::current()) {
  simt::copy_async_16(to_shared, from, valid, here);
}
LANESCOPE_DEVICE void commit_copies() { simt::commit_copies(); }
/// Waits until at most N of this thread's committed groups are under way.
template <int N>
LANESCOPE_DEVICE void wait_copies() {
  simt::wait_copies(N);
}

/// Four 8×8 matrices of 16-bit elements; lane 8·i + j gives the address of row j of matrix i, and
/// register i receives matrix i (PTX ISA, ldmatrix).
LANESCOPE_DEVICE void ldmatrix_x4(std::uint32_t (&r)[4], const void* row,
                                  Here here = std::source_location::current()) {
  simt::ldmatrix_x4(r, row, false, here);
}
/// The same, each matrix transposed.
LANESCOPE_DEVICE void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row,
                                        Here here = std::source_location::current()) {
  simt::ldmatrix_x4(r, row, true, here);
}

/// c += a·b, 16×8×16, T elements, fp32 accumulate (PTX ISA, mma.sync.m16n8k16).
template <class T>
LANESCOPE_DEVICE void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1, Here here = std::source_location::current()) {
  simt::mma_m16n8k16(T::type, c, a, b0, b1, here);
}

// By reference: where the argument is an element in memory, its load keeps the line of the call.
LANESCOPE_DEVICE float widen(const f16& x) { return simt::f16_to_f32(x.bits); }
LANESCOPE_DEVICE float widen(const bf16& x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Two e4m3 elements as two f16 in one register, in the same order: exact, a NaN becomes 0x7fff
/// (PTX ISA, cvt.rn.f16x2.e4m3x2).
LANESCOPE_DEVICE std::uint32_t e4m3x2_to_f16x2(std::uint16_t pair) {
  return simt::e4m3_to_f16(static_cast<std::uint8_t>(pair)) |
         static_cast<std::uint32_t>(simt::e4m3_to_f16(static_cast<std::uint8_t>(pair >> 8))) << 16;
}

/// Rounds to nearest even.
template <class T>
LANESCOPE_DEVICE T narrow(float x) {
  if constexpr (std::is_same_v<T, f16>) {
    return {simt::f32_to_f16(x)};
  } else {
    return {simt::f32_to_bf16(x)};
  }
}
/// Two elements in one register, `low` in the low half, each rounded to nearest even.
template <class T>
LANESCOPE_DEVICE std::uint32_t pack(float low, float high) {
  return narrow<T>(low).bits | static_cast<std::uint32_t>(narrow<T>(high).bits) << 16;
}

/// Four elements in one register, the first in the lowest byte, each rounded to nearest even; ±448
/// where it is beyond (PTX ISA, cvt.rn.satfinite.e4m3x2.f32).
LANESCOPE_DEVICE std::uint32_t pack_e4m3(float x0, float x1, float x2, float x3) {
  const auto byte = [](float x) { return std::uint32_t{simt::f32_to_e4m3(x)}; };
  return byte(x0) | byte(x1) << 8 | byte(x2) << 16 | byte(x3) << 24;
}
/// Byte i of the result is byte `selector` >> 4·i & 7 of the eight of a and b, a's first
/// (PTX ISA, prmt).
LANESCOPE_DEVICE std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b,
                                             std::uint32_t selector) {
  return simt::permute_bytes(a, b, selector);
}

LANESCOPE_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
LANESCOPE_DEVICE float max(float a, float b) { return simt::max(a, b); }
/// to += x as one access, whoever else adds to it (CUDA C++ Programming Guide, atomicAdd). The
/// order in which lanes come is not specified.
LANESCOPE_DEVICE void atomic_add(float& to, float x) {
  float seen, sum;
  __atomic_load(&to, &seen, __ATOMIC_SEQ_CST);
  do sum = seen + x;
  while (!__atomic_compare_exchange(&to, &seen, &sum, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}
/// to = x in shared memory, whoever else stores so at the same time: one of these values stays, and
/// who meets them afterwards reads it (PTX ISA, st.relaxed).
LANESCOPE_DEVICE void store_relaxed(std::uint32_t& to, std::uint32_t x) {
  __atomic_store_n(&to, x, __ATOMIC_RELAXED);
}
/// 0, 1, ... once each, `all` times in a launch: to the blocks by turns.
LANESCOPE_DEVICE int next_ticket(int all) { return simt::next_ticket(all); }
/// 2^x (PTX ISA, ex2.approx.ftz.f32).
LANESCOPE_DEVICE float ex2(float x) { return simt::ex2(x); }
/// log2(x) (PTX ISA, lg2.approx.ftz.f32).
LANESCOPE_DEVICE float lg2(float x) { return simt::lg2(x); }

LANESCOPE_DEVICE std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
LANESCOPE_DEVICE std::uint32_t bits_of(std::uint32_t x) { return x; }
template <class E>
LANESCOPE_DEVICE E from_bits(std::uint32_t bits) {
  return std::bit_cast<E>(bits);
}

}  // namespace lanescope::device

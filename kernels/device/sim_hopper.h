#pragma once

#include <cstddef>
#include <cstdint>

#include "debug/simt/hopper.h"
#include "kernels/device/fragments.h"
#include "kernels/device/sim.h"

namespace lanescope::device {

using simt::Swizzle;
using simt::TensorMap;

/// An mbarrier in shared memory (PTX ISA, mbarrier).
struct Mbarrier {
  simt::Mbarrier opaque;
};

LANESCOPE_DEVICE std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(pointer) - simt::shared_memory());
}

/// The warpgroup of the calling warp.
LANESCOPE_DEVICE int warpgroup() { return simt::thread_index() / 128; }

/// The block's shared memory, its address in a register.
template <class SharedMemory>
LANESCOPE_DEVICE SharedMemory& held(SharedMemory& memory) {
  return memory;
}

/// Phases of `count` arrivals.
LANESCOPE_DEVICE void mbarrier_init(Mbarrier& barrier, int count,
                                    Here here = std::source_location::current()) {
  simt::mbarrier_init(barrier.opaque, count, here);
}
/// The mbarriers that the lane initialised are so for the asynchronous proxy too.
LANESCOPE_DEVICE void fence_mbarrier_init() { simt::mbarrier_fence_init(); }
LANESCOPE_DEVICE void mbarrier_arrive(Mbarrier& barrier,
                                      Here here = std::source_location::current()) {
  simt::mbarrier_arrive(barrier.opaque, here);
}
/// Copies will bring this many bytes more in the present phase.
LANESCOPE_DEVICE void mbarrier_expect_tx(Mbarrier& barrier, int bytes,
                                         Here here = std::source_location::current()) {
  simt::mbarrier_expect_tx(barrier.opaque, bytes, here);
}
LANESCOPE_DEVICE void mbarrier_arrive_expect_tx(Mbarrier& barrier, int bytes,
                                                Here here = std::source_location::current()) {
  simt::mbarrier_expect_tx(barrier.opaque, bytes, here);
  simt::mbarrier_arrive(barrier.opaque, here);
}
/// Waits for the end of the phase of this parity: of phases 0, 2, ... it is 0. Before phase 0 has
/// ended, 1 passes.
LANESCOPE_DEVICE void mbarrier_wait(Mbarrier& barrier, int parity,
                                    Here here = std::source_location::current()) {
  simt::mbarrier_wait(barrier.opaque, parity, here);
}

/// Between generic accesses and those of the asynchronous proxy, either way.
LANESCOPE_DEVICE void fence_proxy_async() { simt::fence_proxy_async(); }

/// One of the barriers 1 to 15 of the block: waits until `threads` have come to it.
LANESCOPE_DEVICE void barrier_sync(int id, int threads,
                                   Here here = std::source_location::current()) {
  simt::named_barrier_sync(id, threads, here);
}
/// Comes to it and goes on.
LANESCOPE_DEVICE void barrier_arrive(int id, int threads,
                                     Here here = std::source_location::current()) {
  simt::named_barrier_arrive(id, threads, here);
}

/// The tensor at `base` of elements T, `size` elements in each dimension, the first one contiguous,
/// the others `stride` bytes apart (stride[0] is that of dimension 1), and the box that a copy
/// moves. nullptr, or why not.
template <class T, int Rank>
const char* make_tensor_map(TensorMap& map, const void* base, const std::int64_t (&size)[Rank],
                            const std::int64_t (&stride)[Rank - 1], const int (&box)[Rank],
                            Swizzle swizzle) {
  map = {base, static_cast<int>(sizeof(T)), Rank, {}, {}, {}, swizzle};
  for (int i = 0; i < Rank; ++i) {
    map.size[i] = size[i];
    map.stride[i] = i == 0 ? map.element_bytes : stride[i - 1];
    map.box[i] = box[i];
  }
  return simt::fault_of(map);
}

/// The map will be used soon.
LANESCOPE_DEVICE void prefetch(const TensorMap&) {}

/// The box whose first element has these coordinates, dimension 0 first, to shared memory, zeros
/// outside of the tensor. Its bytes arrive at `barrier`. One lane calls it.
template <int Rank>
LANESCOPE_DEVICE void tensor_load(void* to, const TensorMap& map, const int (&at)[Rank],
                                  Mbarrier& barrier, Here here = std::source_location::current()) {
  simt::tensor_load(to, map, at, Rank, barrier.opaque, here);
}
/// The same to global memory, in the lane's open group.
template <int Rank>
LANESCOPE_DEVICE void tensor_store(const TensorMap& map, const int (&at)[Rank], const void* from,
                                   Here here = std::source_location::current()) {
  simt::tensor_store(map, at, Rank, from, here);
}
LANESCOPE_DEVICE void commit_stores() { simt::commit_stores(); }
/// Until at most N of the lane's groups are under way, or still read their sources.
template <int N>
LANESCOPE_DEVICE void wait_stores() {
  simt::wait_stores(N);
}
template <int N>
LANESCOPE_DEVICE void wait_stores_read() {
  simt::wait_stores(N);
}

/// d += a·b, or d = a·b: 64×N×16 of a warpgroup, of e4m3 64×N×32, T elements, fp32 accumulate,
/// N = 2·C. Operands in memory are given by matrix descriptors; of those whose Major is row, K is
/// contiguous, as it has to be in e4m3.
template <class T, Major A, Major B, int C>
LANESCOPE_DEVICE void wgmma(float (&d)[C], std::uint64_t a, std::uint64_t b, bool accumulates,
                            Here here = std::source_location::current()) {
  static_assert(sizeof(T) == 2 || (A == Major::row && B == Major::row));
  simt::wgmma({simt::factor_type(T::type), simt::factor_type(T::type), 2 * C, accumulates, false,
               A == Major::col, B == Major::col, a, b},
              d, nullptr, here);
}
/// The same, A in registers: the fragment of mma.m16n8k16, or of e4m3 of mma.m16n8k32, of each
/// warp's rows.
template <class T, Major B, int C>
LANESCOPE_DEVICE void wgmma(float (&d)[C], const std::uint32_t (&a)[4], std::uint64_t b,
                            bool accumulates, Here here = std::source_location::current()) {
  static_assert(sizeof(T) == 2 || B == Major::row);
  simt::wgmma({simt::factor_type(T::type), simt::factor_type(T::type), 2 * C, accumulates, true,
               false, B == Major::col, 0, b},
              d, a, here);
}
/// Between accesses to registers and the products that use them.
LANESCOPE_DEVICE void wgmma_fence(Here here = std::source_location::current()) {
  simt::wgmma_fence(here);
}
LANESCOPE_DEVICE void wgmma_commit(Here here = std::source_location::current()) {
  simt::wgmma_commit(here);
}
/// Until at most N of the groups are under way.
template <int N>
LANESCOPE_DEVICE void wgmma_wait(Here here = std::source_location::current()) {
  simt::wgmma_wait(N, here);
}
/// Accesses to these registers stay on their side of this call.
template <class E, int N>
LANESCOPE_DEVICE void pin(Registers<E, N>&) {}

/// Registers of each lane of the warpgroup, which all call it: a multiple of 8 from 24 to 256.
template <int Count>
LANESCOPE_DEVICE void decrease_registers(Here here = std::source_location::current()) {
  simt::change_registers(Count, false, here);
}
template <int Count>
LANESCOPE_DEVICE void increase_registers(Here here = std::source_location::current()) {
  simt::change_registers(Count, true, here);
}

/// True in one lane of the warp, which meets.
LANESCOPE_DEVICE bool elect_one(Here here = std::source_location::current()) {
  return simt::elect_one(here);
}

/// Four 8×8 matrices of 16-bit elements; lane 8·i + j gives the address of row j of matrix i
/// (PTX ISA, stmatrix).
LANESCOPE_DEVICE void stmatrix_x4(void* row, const std::uint32_t (&r)[4],
                                  Here here = std::source_location::current()) {
  simt::stmatrix_x4(row, r, false, here);
}
/// The same, each matrix transposed.
LANESCOPE_DEVICE void stmatrix_x4_trans(void* row, const std::uint32_t (&r)[4],
                                        Here here = std::source_location::current()) {
  simt::stmatrix_x4(row, r, true, here);
}

}  // namespace lanescope::device

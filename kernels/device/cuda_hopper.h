#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/device/cuda.h"
#include "kernels/device/fragments.h"
#include "wgmma_ptx.h"

namespace lanescope::device {

/// How 16-byte chunks are mixed within 128-byte lines of shared memory; the values are those of a
/// matrix descriptor (PTX ISA, "Matrix Descriptor Format").
enum class Swizzle : std::uint8_t { none, b128, b64, b32 };

/// A tensor in global memory, and the box of it that a copy moves: a parameter of the kernel.
struct TensorMap {
  CUtensorMap opaque;
};

/// An mbarrier in shared memory (PTX ISA, mbarrier).
struct Mbarrier {
  std::uint64_t opaque;
};

/// Phases of `count` arrivals.
LANESCOPE_DEVICE void mbarrier_init(Mbarrier& barrier, int count, Here = {}) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(count)
               : "memory");
}
/// The mbarriers that the lane initialised are so for the asynchronous proxy too.
LANESCOPE_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
LANESCOPE_DEVICE void mbarrier_arrive(Mbarrier& barrier, Here = {}) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}
/// Copies will bring this many bytes more in the present phase.
LANESCOPE_DEVICE void mbarrier_expect_tx(Mbarrier& barrier, int bytes, Here = {}) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}
LANESCOPE_DEVICE void mbarrier_arrive_expect_tx(Mbarrier& barrier, int bytes, Here = {}) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}
/// Waits for the end of the phase of this parity: of phases 0, 2, ... it is 0. Before phase 0 has
/// ended, 1 passes.
LANESCOPE_DEVICE void mbarrier_wait(Mbarrier& barrier, int parity, Here = {}) {
  std::uint32_t done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.b32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
  } while (!done);
}

/// The warpgroup of the calling warp, which meets: what depends on it is the same in all its lanes,
/// and this tells the compiler so.
LANESCOPE_DEVICE int warpgroup() {
  return static_cast<int>(__shfl_sync(full_warp, threadIdx.x / 128, 0));
}

/// The block's shared memory, its address in a register: ptxas would make it again from a special
/// register wherever it is used.
template <class SharedMemory>
LANESCOPE_DEVICE SharedMemory& held(SharedMemory& memory) {
  std::uint32_t address = shared_address(&memory);
  asm volatile("" : "+r"(address));
  return *static_cast<SharedMemory*>(__cvta_shared_to_generic(address));
}

/// Between generic accesses and those of the asynchronous proxy, either way.
LANESCOPE_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

/// One of the barriers 1 to 15 of the block: waits until `threads` have come to it.
LANESCOPE_DEVICE void barrier_sync(int id, int threads, Here = {}) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Comes to it and goes on.
LANESCOPE_DEVICE void barrier_arrive(int id, int threads, Here = {}) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// The tensor at `base` of elements T, `size` elements in each dimension, the first one contiguous,
/// the others `stride` bytes apart (stride[0] is that of dimension 1), and the box that a copy
/// moves. nullptr, or why not. The driver's function is asked for by name, so that a module needs
/// no more than the runtime.
template <class T, int Rank>
const char* make_tensor_map(TensorMap& map, const void* base, const std::int64_t (&size)[Rank],
                            const std::int64_t (&stride)[Rank - 1], const int (&box)[Rank],
                            Swizzle swizzle) {
  constexpr CUtensorMapSwizzle swizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                             CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_32B};
  constexpr CUtensorMapDataType type = std::is_same_v<T, f16>    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                       : std::is_same_v<T, bf16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                       : sizeof(T) == 1          ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                                                 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  using Encode = decltype(&cuTensorMapEncodeTiled);
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode,
                                                             12000, cudaEnableDefault, &found);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  if (found != cudaDriverEntryPointSuccess) return "the driver has no cuTensorMapEncodeTiled";
  cuuint64_t sizes[Rank], strides[Rank];
  cuuint32_t boxes[Rank], steps[Rank];
  for (int i = 0; i < Rank; ++i) {
    sizes[i] = static_cast<cuuint64_t>(size[i]);
    boxes[i] = static_cast<cuuint32_t>(box[i]);
    steps[i] = 1;
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(stride[i - 1]);
  }
  const CUresult result = reinterpret_cast<Encode>(encode)(
      &map.opaque, type, Rank, const_cast<void*>(base), sizes, strides, boxes, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles[static_cast<int>(swizzle)],
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? nullptr : "cuTensorMapEncodeTiled refuses the tensor";
}

/// The map will be used soon (PTX ISA, prefetch.tensormap).
LANESCOPE_DEVICE void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map.opaque) : "memory");
}

/// The box whose first element has these coordinates, dimension 0 first, to shared memory, zeros
/// outside of the tensor. Its bytes arrive at `barrier`. One lane calls it (PTX ISA,
/// cp.async.bulk.tensor).
template <int Rank>
LANESCOPE_DEVICE void tensor_load(void* to, const TensorMap& map, const int (&at)[Rank],
                                  Mbarrier& barrier, Here = {}) {
  static_assert(Rank >= 2 && Rank <= 4);
  const std::uint32_t smem = shared_address(to), bar = shared_address(&barrier);
  const void* from = &map.opaque;
  if constexpr (Rank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];" ::"r"(smem),
        "l"(from), "r"(bar), "r"(at[0]), "r"(at[1])
        : "memory");
  } else if constexpr (Rank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(smem),
        "l"(from), "r"(bar), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(smem),
        "l"(from), "r"(bar), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  }
}
/// The same to global memory, in the lane's open group.
template <int Rank>
LANESCOPE_DEVICE void tensor_store(const TensorMap& map, const int (&at)[Rank], const void* from,
                                   Here = {}) {
  static_assert(Rank >= 2 && Rank <= 4);
  const std::uint32_t smem = shared_address(from);
  const void* to = &map.opaque;
  if constexpr (Rank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
            to),
        "r"(smem), "r"(at[0]), "r"(at[1])
        : "memory");
  } else if constexpr (Rank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::
            "l"(to),
        "r"(smem), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
        "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(to),
        "r"(smem), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  }
}
LANESCOPE_DEVICE void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until at most N of the lane's groups are under way, or still read their sources.
template <int N>
LANESCOPE_DEVICE void wait_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
template <int N>
LANESCOPE_DEVICE void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/// d += a·b, or d = a·b: 64×N×16 of a warpgroup, of e4m3 64×N×32, T elements, fp32 accumulate,
/// N = 2·C. Operands in memory are given by matrix descriptors; of those whose Major is row, K is
/// contiguous, as it has to be in e4m3.
template <class T, Major A, Major B, int C>
LANESCOPE_DEVICE void wgmma(float (&d)[C], std::uint64_t a, std::uint64_t b, bool accumulates,
                            Here = {}) {
  if constexpr (std::is_same_v<T, e4m3>) {
    static_assert(A == Major::row && B == Major::row);
    wgmma_ptx_e4m3(d, a, b, accumulates);
  } else {
    wgmma_ptx<std::is_same_v<T, bf16>, A == Major::col, B == Major::col>(d, a, b, accumulates);
  }
}
/// The same, A in registers: the fragment of mma.m16n8k16, or of e4m3 of mma.m16n8k32, of each
/// warp's rows.
template <class T, Major B, int C>
LANESCOPE_DEVICE void wgmma(float (&d)[C], const std::uint32_t (&a)[4], std::uint64_t b,
                            bool accumulates, Here = {}) {
  if constexpr (std::is_same_v<T, e4m3>) {
    static_assert(B == Major::row);
    wgmma_ptx_e4m3(d, a, b, accumulates);
  } else {
    wgmma_ptx<std::is_same_v<T, bf16>, 0, B == Major::col>(d, a, b, accumulates);
  }
}
/// Between accesses to registers and the products that use them.
LANESCOPE_DEVICE void wgmma_fence(Here = {}) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
LANESCOPE_DEVICE void wgmma_commit(Here = {}) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most N of the groups are under way.
template <int N>
LANESCOPE_DEVICE void wgmma_wait(Here = {}) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/// Accesses to these registers stay on their side of this call.
template <class E, int N>
LANESCOPE_DEVICE void pin(Registers<E, N>& registers) {
  LANESCOPE_UNROLL
  for (int i = 0; i < N; ++i) {
    if constexpr (std::is_same_v<E, float>) {
      asm volatile("" : "+f"(registers[i])::"memory");
    } else {
      asm volatile("" : "+r"(registers[i])::"memory");
    }
  }
}

/// Registers of each lane of the warpgroup, which all call it: a multiple of 8 from 24 to 256.
template <int Count>
LANESCOPE_DEVICE void decrease_registers(Here = {}) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
LANESCOPE_DEVICE void increase_registers(Here = {}) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

/// True in one lane of the warp, which meets.
LANESCOPE_DEVICE bool elect_one(Here = {}) {
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}\n"
               : "=r"(elected));
  return elected;
}

/// Four 8×8 matrices of 16-bit elements; lane 8·i + j gives the address of row j of matrix i
/// (PTX ISA, stmatrix).
LANESCOPE_DEVICE void stmatrix_x4(void* row, const std::uint32_t (&r)[4], Here = {}) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(row)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}
/// The same, each matrix transposed.
LANESCOPE_DEVICE void stmatrix_x4_trans(void* row, const std::uint32_t (&r)[4], Here = {}) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                   shared_address(row)),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace lanescope::device

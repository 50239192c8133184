#pragma once

#include <cstddef>
#include <cstdint>

#include "debug/simt/lane.h"
#include "reference/element_type.h"

namespace lanescope::simt {

// What sm_90 adds to what a lane can call: barriers in shared memory, copies of tensors, products
// of warpgroups, all of them asynchronous. Such work is carried out at the latest legal moment: a
// copy when no lane of the block can go on without it, a product in the wait that covers it. With a
// schedule, copies come at any moment.

/// How 16-byte chunks are mixed within 128-byte lines of shared memory; the values are those of a
/// matrix descriptor (PTX ISA, "Matrix Descriptor Format").
enum class Swizzle : std::uint8_t { none, b128, b64, b32 };
/// Bytes of a row of the pattern; without swizzle, a chunk.
constexpr int bytes_of(Swizzle s) {
  return s == Swizzle::b128 ? 128 : s == Swizzle::b64 ? 64 : s == Swizzle::b32 ? 32 : 16;
}

/// Where the byte at `offset` of shared memory goes: the pattern depends on the address alone.
constexpr std::size_t swizzled(Swizzle s, std::size_t offset) {
  const auto mask = static_cast<std::size_t>(bytes_of(s) / 16 - 1);
  return offset ^ (offset >> 7 & mask) << 4;
}

/// A tensor in global memory, and the box of it that a copy moves (CUDA driver API,
/// cuTensorMapEncodeTiled). Dimension 0 is contiguous.
struct TensorMap {
  static constexpr int most_dimensions = 5;
  const void* base;
  int element_bytes;
  int rank;
  std::int64_t size[most_dimensions];    ///< elements
  std::int64_t stride[most_dimensions];  ///< bytes
  int box[most_dimensions];              ///< elements that it spans
  Swizzle swizzle;
  /// Of every so many elements one is copied, but for dimension 0 (CUDA: elementStrides).
  int step[most_dimensions] = {1, 1, 1, 1, 1};
  /// What comes of elements that the tensor has not: zeroes, or in each 16 bits what `fma.oob`
  /// takes for that (PTX ISA, .fill_mode).
  bool fills_nan = false;
  bool is_tf32 = false;  ///< .f32 elements are rounded to nearest as they come

  /// Elements that are copied along a dimension.
  int count(int i) const { return i == 0 ? box[0] : (box[i] + step[i] - 1) / step[i]; }
  int box_bytes() const {
    int bytes = element_bytes;
    for (int i = 0; i < rank; ++i) bytes *= count(i);
    return bytes;
  }
  int row_bytes() const { return box[0] * element_bytes; }
  /// From one row of the box to the next in shared memory: a row that is shorter than one of the
  /// swizzle's pattern has as much room.
  int pitch() const {
    const int own = row_bytes(), of_pattern = bytes_of(swizzle);
    return swizzle == Swizzle::none || own > of_pattern ? own : of_pattern;
  }
  /// What the box takes up in shared memory.
  int span_bytes() const { return box_bytes() / row_bytes() * pitch(); }
};

/// Why cuTensorMapEncodeTiled would not take such a map; nullptr where it does.
const char* fault_of(const TensorMap& map);

// mbarriers (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"): eight
// bytes of shared memory whose meaning only these know.
using Mbarrier = std::uint64_t;
void mbarrier_init(Mbarrier& barrier, int count, Here here);
/// fence.mbarrier_init: what the lane initialised, the asynchronous proxy sees.
void mbarrier_fence_init();
void mbarrier_arrive(Mbarrier& barrier, Here here);
void mbarrier_expect_tx(Mbarrier& barrier, int bytes, Here here);
/// Until the phase of this parity has completed: 1 passes before the first one has.
void mbarrier_wait(Mbarrier& barrier, int parity, Here here);

/// fence.proxy.async: generic accesses before it, and asynchronous ones behind it.
void fence_proxy_async();

/// barrier.sync and barrier.arrive of one of the 16 barriers of a block, for `threads` of them, a
/// multiple of 32. Barrier 0 is block_barrier's.
void named_barrier_sync(int id, int threads, Here here);
void named_barrier_arrive(int id, int threads, Here here);

/// cp.async.bulk.tensor from global memory, zeros where the box leaves the tensor; completes on
/// `barrier` with the bytes of a whole box. at: the first element, by dimension.
void tensor_load(void* to, const TensorMap& map, const int* at, int rank, Mbarrier& barrier,
                 Here here);
/// The same to global memory, in the lane's open bulk group.
void tensor_store(const TensorMap& map, const int* at, int rank, const void* from, Here here);
void commit_stores();
/// Until at most `pending` of the lane's committed bulk groups are under way.
void wait_stores(int pending);

/// The elements of an operand of wgmma.
enum class FactorType : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, s8, u8 };
constexpr int bytes_of(FactorType type) {
  return type == FactorType::tf32 ? 4 : type <= FactorType::bf16 ? 2 : 1;
}
constexpr FactorType factor_type(ElementType type) {
  return type == ElementType::f16    ? FactorType::f16
         : type == ElementType::bf16 ? FactorType::bf16
                                     : FactorType::e4m3;
}
/// Those of its accumulators; of f16 two lie in a register.
enum class SumType : std::uint8_t { f32, f16, s32 };

/// A product of a warpgroup, d += a·b or d = a·b: m64nNk16 of 16-bit elements, k8 of tf32, k32 of 8
/// bits (PTX ISA, "wgmma.mma_async").
struct Product {
  FactorType a_type, b_type;
  int n;
  bool accumulates;
  bool a_in_registers;
  bool a_is_transposed, b_is_transposed;  ///< in memory: M or N is contiguous, not K
  std::uint64_t a, b;                     ///< matrix descriptors; a where it is in memory
  bool negates = false;                   ///< d −= a·b
  SumType sums = SumType::f32;
  bool saturates = false;  ///< s32: ends at the least and the largest number
  /// Of a lane's accumulators.
  int registers() const { return sums == SumType::f16 ? n / 4 : n / 2; }
  bool operator==(const Product&) const = default;
};
/// d: n / 2 elements of the lane; a: its four registers, or nullptr.
void wgmma(const Product& product, float* d, const std::uint32_t* a, Here here);
void wgmma_fence(Here here);
void wgmma_commit(Here here);
void wgmma_wait(int pending, Here here);

/// setmaxnreg: the registers of each lane of the calling warpgroup. More of them come when others
/// have given theirs back.
void change_registers(int registers, bool more, Here here);

/// elect.sync of the whole warp: true in one lane.
bool elect_one(Here here);

/// stmatrix.x4 of 16-bit elements; `row` is aligned to 16 bytes.
void stmatrix_x4(void* row, const std::uint32_t (&registers)[4], bool transposed, Here here);

}  // namespace lanescope::simt

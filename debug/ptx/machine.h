#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "debug/ptx/global_memory.h"
#include "debug/ptx/marker_run.h"
#include "debug/ptx/number_origins.h"
#include "debug/ptx/program.h"
#include "debug/ptx/recognise.h"
#include "debug/ptx/slice.h"
#include "debug/ptx/tally.h"
#include "debug/simt/machine.h"
#include "reference/error.h"

namespace lanescope::ptx {

/// An instruction that made a number of others.
struct NumberMade {
  std::int64_t block = -1;  ///< −1: none did
  int thread = 0;
  std::uint32_t instruction = 0;  ///< in Program::code
  float result = 0;
  std::array<float, 3> operands{};
  int count = 0;  ///< of operands
  /// Which way the operand came that was not finite, its last step first; empty: all were, or the
  /// way is not known.
  std::vector<NumberStep> way;

  bool before(const NumberMade& other) const {
    return block >= 0 && (other.block < 0 || block < other.block);
  }
};
/// Of the first block in which that happened: the first instruction that made a NaN of operands
/// that are none, before others one whose NaN goes to global memory, and the first that made an
/// infinity of finite ones.
struct NumbersMade {
  NumberMade nan, infinity;
  bool leaves = false;      ///< one that is not finite goes to global memory
  bool nan_leaves = false;  ///< `nan` does

  void add(const NumbersMade& other) {
    const bool is_better =
        nan_leaves == other.nan_leaves ? other.nan.before(nan) : other.nan_leaves;
    if (is_better) nan = other.nan;
    if (other.infinity.before(infinity)) infinity = other.infinity;
    leaves = leaves || other.leaves;
    nan_leaves = nan_leaves || other.nan_leaves;
  }
};

/// Bytes of memory that a backward slice is wanted of, and the one of the first block that wrote
/// them.
struct SliceWish {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::string name = {};  ///< for people
  Slice found = {};
};

/// The grid of a kernel, and how the machine runs it.
struct Grid {
  std::array<std::uint32_t, 3> blocks = {1, 1, 1};
  std::array<std::uint32_t, 3> threads = {32, 1, 1};  ///< of a block
  std::array<std::uint32_t, 3> cluster = {1, 1, 1};   ///< blocks of a cluster
  std::size_t dynamic_shared = 0;                     ///< bytes that the launch adds
  /// Of a cooperative grid, whose blocks may wait for each other: memory of the system's that they
  /// meet by (%envreg1 and %envreg2); 0: of others.
  std::uint64_t workspace = 0;
  const void* parameters = nullptr;  ///< Program::parameter_bytes
  const GlobalMemory* memory = nullptr;
  double timeout_seconds = 0;        ///< that a block may take, 0: any
  int workers = 0;                   ///< OS threads, 0: one per core
  std::uint64_t schedule = 0;        ///< 0: warps run in their order; else a seed of another
  simt::Checker* checker = nullptr;  ///< memory checker
  simt::TensorCoreRule tensor_core = simt::hopper_rule;
  const MarkerRun* markers = nullptr;  ///< what its markers trace to and take from, if at all
  NumbersMade* numbers = nullptr;      ///< where to note them, if at all
  Tally* tally = nullptr;              ///< where to count, if at all
  bool tallies_accesses = false;       ///< their costs too
  SliceWish* slice = nullptr;          ///< what to follow back, if anything
  const Lookout* lookout = nullptr;    ///< what to look for, if anything
  History* history = nullptr;          ///< of which the launch is the last; needed for both
  bool is_first = true;                ///< of several launches on the same buffers
  /// Blocks before it, along any dimension, are not run, unless their cluster goes beyond it.
  std::array<std::uint32_t, 3> first_block = {0, 0, 0};
  bool beside_last = false;  ///< the grid before it may still run (griddepcontrol)
  std::atomic<bool>* lets_next_start = nullptr;  ///< set by griddepcontrol.launch_dependents
  std::uint32_t first_place = 1;  ///< what the checker knows the first instruction by
  std::function<std::string(std::uint32_t)> line_elsewhere = {};  ///< of places of other kernels

  std::int64_t block_count() const { return std::int64_t{blocks[0]} * blocks[1] * blocks[2]; }
  int blocks_of_cluster() const { return static_cast<int>(cluster[0] * cluster[1] * cluster[2]); }
  bool is_cooperative() const { return workspace != 0; }
  std::int64_t thread_count() const { return std::int64_t{threads[0]} * threads[1] * threads[2]; }
};

/// What a kernel did that ended it, as far as CUDA tells such ends apart.
enum class FaultKind : std::uint8_t {
  illegal_address,
  misaligned_address,
  assertion,
  timeout,
  launch_failure,  ///< all others
};
struct KernelFault : simt::Fault {
  KernelFault(const simt::Fault& fault, FaultKind its_kind) : Fault(fault), kind(its_kind) {}
  FaultKind kind;
};

/// A grid that no device takes.
struct LaunchError : UsageError {
  using UsageError::UsageError;
};

/// Runs a kernel: a cluster of blocks on one OS thread, its warps one after the other, clusters in
/// parallel; of a cooperative grid all blocks on one.
/// Returns the number of instructions that its warps have run. Throws the KernelFault of the
/// lowest faulty block; LaunchError.
std::int64_t launch(const Grid& grid, const Program& program);

}  // namespace lanescope::ptx

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "debug/ptx/program.h"

namespace lanescope::ptx {

/// What accesses to memory cost, beside what as many bytes have to cost.
struct AccessCost {
  std::int64_t accesses = 0;  ///< of warps
  /// Of shared memory wavefronts: rounds in which each of the 32 banks gives one word of 4 bytes.
  /// Of global memory sectors: the 32 bytes that are moved at once (CUDA C++ Programming Guide,
  /// "Shared Memory" and "Device Memory Accesses").
  std::int64_t taken = 0;
  std::int64_t needed = 0;

  void add(const AccessCost& other) {
    accesses += other.accesses;
    taken += other.taken;
    needed += other.needed;
  }
};

/// The cost of one access of the lanes in `mask`, to `bytes` each, at these addresses.
AccessCost shared_cost(std::uint32_t mask, std::size_t bytes,
                       std::span<const std::uint64_t, 32> at);
AccessCost global_cost(std::uint32_t mask, std::size_t bytes,
                       std::span<const std::uint64_t, 32> at);

/// What one instruction did in a launch, counted.
struct InstructionTally {
  AccessCost shared, global;
  /// Of one that waits for asynchronous work: how often a warp came to it, and how often there was
  /// something that it had to wait for.
  std::int64_t waits = 0, awaited = 0;
  /// Of a barrier of the block: how often it opened without lanes that had exited, and how many
  /// came the first time, in which block.
  std::int64_t opened_short = 0;
  int came = 0, expected = 0;
  std::int64_t block = -1;
  /// In how many blocks it was the first that opened while other warps waited in another
  /// instruction, and in which: what crosses from there on follows from that.
  std::int64_t crossed = 0;
  std::uint32_t other = 0;

  void add(const InstructionTally& other);
};
using Tally = std::vector<InstructionTally>;  ///< by instruction, as in Program::code

/// The costs of what a source line does with an opcode, that are higher than they need be.
struct LineCost {
  std::string line;  ///< "ld.global.f32 at x.cu:17"
  bool shared = false;
  AccessCost cost;
};
/// Those that cost the most beyond need first.
std::vector<LineCost> costly_lines(const Tally& tally, const Program& program);

}  // namespace lanescope::ptx

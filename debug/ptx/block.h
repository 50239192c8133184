#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "debug/ptx/machine.h"
#include "debug/ptx/warp.h"
#include "debug/simt/block_checker.h"
#include "debug/simt/last_words.h"

namespace lanescope::ptx {

/// What the lanes that have met at a barrier brought (PTX ISA, bar.red).
struct Vote {
  int holds = 0;  ///< lanes whose predicate holds
  int lanes = 0;
};

/// A barrier of a block (PTX ISA, bar).
struct Barrier {
  struct Arrival {
    int warp;
    std::uint32_t mask;
  };
  int expected = 0;  ///< lanes, 0: all that have not exited
  int arrived = 0;
  std::vector<Arrival> arrivals;
  Vote vote;
};

/// Runs the blocks of a grid, one after the other, on the calling thread.
class Block {
 public:
  Block(const Grid& grid, const Program& program, simt::Sitting& sitting, BlockOrder& order);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Throws Fault.
  void run(std::int64_t block);
  std::int64_t instructions() const;

  const Grid& grid() const { return grid_; }
  const Program& program() const { return program_; }
  std::int64_t index() const { return block_; }
  std::array<std::uint32_t, 3> coordinates() const { return coordinates_; }
  std::byte* shared() { return shared_; }
  std::size_t shared_bytes() const { return shared_bytes_; }
  simt::BlockChecker* checker() { return checker_ ? &*checker_ : nullptr; }
  simt::Sitting& sitting() { return sitting_; }
  BlockOrder& order() { return order_of_blocks_; }
  NumbersMade& numbers() { return numbers_; }
  std::uint32_t time = 0;  ///< BlockOrder
  /// Under the memory checker: reads of bytes that nobody wrote, whose values some register held;
  /// the first stands for registers that nothing was assigned to.
  std::vector<simt::Finding> unwritten_sources;
  /// For each byte of shared memory that such a value was stored to 1 + its source; else 0. Empty:
  /// none was.
  std::vector<std::uint32_t> unwritten_shared;

  /// Lanes of a warp arrive at a barrier, and count as `counted`; `expected`: 0 all lanes of the
  /// block. Where the barrier opens with them, what waited there is ready again, and the vote
  /// comes back.
  std::optional<Vote> arrive(Warp& warp, int id, const Barrier::Arrival& arrival, int counted,
                             int expected, int votes);
  /// Lanes of a warp have exited: barriers may be complete without them.
  void note_exit();
  [[noreturn]] void fail(const std::string& what, FaultKind kind = FaultKind::launch_failure);
  /// Of the block that failed.
  FaultKind fault() const { return fault_; }

 private:
  Vote open(int id);
  int alive() const;
  std::string describe_places() const;

  const Grid& grid_;
  const Program& program_;
  simt::Sitting& sitting_;
  BlockOrder& order_of_blocks_;
  NumbersMade numbers_;
  FaultKind fault_ = FaultKind::launch_failure;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::array<Barrier, 16> barriers_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* shared_ = nullptr;
  std::size_t shared_bytes_;
  std::optional<simt::BlockChecker> checker_;
  std::mt19937_64 order_;
  std::int64_t block_ = 0;
  std::array<std::uint32_t, 3> coordinates_{};
};

}  // namespace lanescope::ptx

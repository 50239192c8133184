#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lanescope::ptx {

/// Which accesses of the blocks of a grid come before which: blocks meet at atomic accesses, and
/// what a block did before it came there is before what others do that come there later. Of the
/// lanes of a block it is taken that they all know of each other then: where no barrier orders
/// them, races can be missed, and none is made up.
class BlockOrder {
 public:
  /// Around an access that orders and the `meet` of it: else one block could see what another left
  /// before it has met it.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(accesses_); }
  /// A block accesses `address` in a way that orders. Returns how often it has, which is the time
  /// of what it does next. `of_reads`: its writes are not ordered by it.
  std::uint32_t meet(const void* address, std::int64_t block, bool of_reads = false);
  /// A block sends bytes that complete on the mbarrier `full`: who meets that later knows that they
  /// have come, and nothing of what the sender did before (PTX ISA, "Asynchronous Operations").
  /// Returns what `has_come` knows it by.
  std::uint32_t send(const void* full);
  /// Whether what was sent has come before what `later` does now.
  bool has_come(std::uint32_t sent, std::int64_t later) const;
  /// Whether what `earlier` did at `time` is before what `later` does now.
  bool holds(std::int64_t earlier, std::uint32_t time, std::int64_t later) const {
    return used_ && is_known(earlier, time, later, false);
  }
  /// The same of what it read.
  bool holds_read(std::int64_t earlier, std::uint32_t time, std::int64_t later) const {
    return used_ && is_known(earlier, time, later, true);
  }

 private:
  using Blocks = std::unordered_map<std::int64_t, std::uint32_t>;  ///< times of blocks: all before
  struct Knowledge {
    std::unordered_map<const void*, Blocks> passed;  ///< by accesses of the address
    std::unordered_map<std::int64_t, Blocks> known;  ///< to each block

    /// `tells`: others that come later know what the block knows.
    void meet(const void* address, std::int64_t block, std::uint32_t time, bool tells);
    bool holds(std::int64_t earlier, std::uint32_t time, std::int64_t later) const;
  };
  static void join(Blocks& to, const Blocks& from);
  bool is_known(std::int64_t earlier, std::uint32_t time, std::int64_t later, bool read) const;

  std::atomic<bool> used_{false};  ///< most kernels order no blocks
  std::mutex accesses_;
  mutable std::mutex mutex_;
  std::unordered_map<std::int64_t, std::uint32_t> times_;  ///< of each block
  Knowledge all_;
  /// Of reads, which is more since some accesses order reads alone; nothing: it is the same.
  std::optional<Knowledge> of_reads_;
  /// What completes on an mbarrier, as if a block of its own did it.
  struct Arrivals {
    std::int64_t block = 0;  ///< below −1
    std::uint32_t time = 0, sent = 0;
    bool met = false;  ///< since then
  };
  std::unordered_map<const void*, Arrivals> arrivals_;          ///< by mbarrier
  std::vector<std::pair<std::int64_t, std::uint32_t>> events_;  ///< its block and time, by `sent`
};

}  // namespace lanescope::ptx

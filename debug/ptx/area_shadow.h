#pragma once

#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "debug/simt/finding.h"
#include "debug/simt/shadow.h"

namespace lanescope::ptx {

/// Which blocks of a grid come after which: those that have met at an atomic access. It is taken
/// to order all that both ever do, so that of blocks that meet races can be missed, and none is
/// made up.
class BlockOrder {
 public:
  /// Around an access that orders and the `meet` of it: else one block could see what another left
  /// before it has met it.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(accesses_); }
  /// A block accesses `address` in a way that orders.
  void meet(const void* address, std::int64_t block);
  bool holds(std::int64_t earlier, std::int64_t later) const;

 private:
  using Blocks = std::vector<std::uint64_t>;  ///< a set of them, a bit each
  static void add(Blocks& to, std::int64_t block);
  static void join(Blocks& to, const Blocks& from);

  std::atomic<bool> used_{false};  ///< most kernels order no blocks
  std::mutex accesses_;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Blocks> passed_;  ///< by accesses of the address
  std::unordered_map<std::int64_t, Blocks> known_;  ///< to each block
};

/// What the memory checker knows of an area of global memory that any lane may use: which bytes
/// were ever written, and who used them in the launch that runs. Of that it keeps a cell per 4
/// bytes, in a page where something narrower was accessed per 2 or 1, and only of pages that are
/// used. A cell is the Cell of simt/shadow.h with the blocks that its accesses are of.
class AreaShadow {
 public:
  /// `written`: by someone who does not tell, so that no read is of what nobody wrote.
  AreaShadow(std::size_t bytes, bool written);

  /// The host writes.
  void note_write(std::size_t offset, std::size_t bytes);
  /// The host copies what was written, and what was not.
  void note_copy(std::size_t offset, const AreaShadow& from, std::size_t from_offset,
                 std::size_t bytes);
  /// What was done before the launch comes before all that it does.
  void begin_launch() { ++launch_; }

  /// An access of the launch.
  struct Visit {
    bool write;
    bool orders;  ///< atomic, or volatile and the like: such do not race with each other
    std::int64_t block;
    simt::Touch touch;
    simt::Past past;
  };
  /// Enters it. Returns what is wrong with it, where (`offset`), and what it collides with.
  simt::Kind enter(std::size_t& offset, std::size_t bytes, const Visit& visit,
                   const BlockOrder& order, simt::Party& earlier);

 private:
  static constexpr std::size_t page_bytes = 4096;
  struct Use {
    simt::Touch touch;
    std::int32_t block = -1;  ///< −1: nobody
    bool orders = false;
  };
  struct Cell {
    Use write;
    Use reads[2];
  };
  struct Page {
    std::mutex mutex;
    std::bitset<page_bytes> written;
    std::uint32_t launch = 0;  ///< that the cells are of
    unsigned shift = 2;        ///< a cell is of 1 << shift bytes
    std::vector<Cell> cells;
  };
  static void refine(Page& page, std::size_t offset, std::size_t bytes);
  static simt::Kind enter_page(Page& page, std::size_t& offset, std::size_t bytes,
                               const Visit& visit, const BlockOrder& order, simt::Party& earlier);
  static simt::Kind enter_cell(Cell& cell, const Visit& visit, const BlockOrder& order,
                               simt::Party& earlier);
  bool was_written(std::size_t offset) const {
    return pages_[offset / page_bytes].written[offset % page_bytes];
  }

  std::unique_ptr<Page[]> pages_;
  std::uint32_t launch_ = 0;
};

}  // namespace lanescope::ptx

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "debug/ptx/block_order.h"
#include "debug/simt/finding.h"
#include "debug/simt/shadow.h"

namespace lanescope::ptx {

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
  /// What was done before the launch comes before all that it does; `beside_last`: but for what
  /// the last launch did, which may still run.
  void begin_launch(bool beside_last = false) {
    ++launch_;
    beside_last_ = beside_last;
  }

  /// An access of the launch.
  struct Visit {
    bool write;
    bool rewrites;  ///< the bytes that lie there already
    bool orders;    ///< atomic, or volatile and the like: such do not race with each other
    bool sent;      ///< to complete on an mbarrier: `time` is what BlockOrder::send gave
    std::int64_t block;
    std::uint32_t time;  ///< of the block (BlockOrder)
    bool after_last;     ///< all that the last launch did is before it
    simt::Touch touch;
    simt::Past past;
  };
  /// Whether nobody wrote these bytes, or some of them.
  bool is_unwritten(std::size_t offset, std::size_t bytes) const;
  /// Bytes that somebody wrote, and nobody read since there is the area.
  std::size_t unread() const;
  /// What is wrong with one, where, and what it collides with.
  struct Verdict {
    simt::Kind kind = simt::Kind::none;
    std::size_t offset = 0;
    simt::Party earlier;
    bool unwritten = false;  ///< a read, and nobody wrote some of the bytes
  };
  /// Of several accesses in a row: the page that the last one was in.
  using Held = std::unique_lock<std::mutex>;
  /// Enters it.
  Verdict enter(std::size_t offset, std::size_t bytes, const Visit& visit, const BlockOrder& order,
                Held& held);

 private:
  static constexpr std::size_t page_bytes = 4096;
  /// Bytes of a page.
  class ByteSet {
   public:
    void set(std::size_t first, std::size_t count, bool value = true);
    bool operator[](std::size_t i) const { return (words_[i / 64] >> i % 64 & 1) != 0; }
    /// The first of `count` that is not in it; first + count: all are.
    std::size_t find_missing(std::size_t first, std::size_t count) const;
    /// Those that `other` has not.
    std::size_t count_without(const ByteSet& other) const;

   private:
    std::array<std::uint64_t, page_bytes / 64> words_{};
  };
  struct Use {
    simt::Touch touch;
    std::int32_t block = -1;  ///< −1: nobody
    std::uint32_t time = 0;
    bool orders = false, sent = false;  ///< as a Visit says
  };
  struct Cell {
    Use write;
    Use reads[2];
  };
  struct Page {
    mutable std::mutex mutex;
    ByteSet written, read;
    std::uint32_t launch = 0;  ///< that the cells are of
    unsigned shift = 2;        ///< a cell is of 1 << shift bytes
    std::vector<Cell> cells;
    /// Of the last launch, where the one that runs began beside it; empty: it did nothing here.
    std::vector<Cell> last_cells;
    unsigned last_shift = 2;
  };
  void turn_to_launch(Page& page) const;
  static void refine(Page& page, std::size_t offset, std::size_t bytes);
  static Verdict enter_page(Page& page, std::size_t offset, std::size_t bytes, const Visit& visit,
                            const BlockOrder& order);
  /// An access that may come before one of the last launch that uses the same bytes.
  static void meet_last(const Page& page, std::size_t offset, std::size_t bytes, const Visit& visit,
                        Verdict& found);
  static simt::Kind enter_cell(Cell& cell, const Visit& visit, const BlockOrder& order,
                               simt::Party& earlier);
  bool was_written(std::size_t offset) const {
    return pages_[offset / page_bytes].written[offset % page_bytes];
  }
  /// f(page, first, count) for the bytes of each page.
  template <class F>
  void each_page(std::size_t offset, std::size_t bytes, F&& f) const;

  std::size_t pages_count_;
  std::unique_ptr<Page[]> pages_;
  std::uint32_t launch_ = 0;
  bool beside_last_ = false;
};

}  // namespace lanescope::ptx

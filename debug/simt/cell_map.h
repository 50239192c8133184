#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "debug/simt/shadow.h"

namespace lanescope::simt {

/// What is known of a piece of memory: a cell per 4 bytes, in a page where something narrower was
/// accessed per 2 or 1. All bytes of a cell have been accessed together, so it says the same as a
/// cell per byte.
class CellMap {
 public:
  explicit CellMap(std::size_t bytes)
      : shifts_((bytes + page_bytes - 1) / page_bytes, widest),
        cells_(shifts_.size() * page_bytes) {}

  /// Forgets all accesses.
  void reset() {
    for (std::size_t page = 0; page < shifts_.size(); ++page) {
      std::fill_n(&cells_[page * page_bytes], page_bytes >> shifts_[page], Cell{});
    }
  }

  /// f(cell, offset of its first byte) for the cells of `bytes` at `offset`, in their order, each
  /// of which lies in them whole.
  template <class F>
  void each(std::size_t offset, std::size_t bytes, F&& f) {
    for (std::size_t at = offset, end = offset + bytes; at < end;) {
      const std::size_t page = at / page_bytes;
      const std::size_t here = std::min(end, (page + 1) * page_bytes);
      const auto fitting = static_cast<unsigned>(std::countr_zero(at | here));
      if (fitting < shifts_[page]) refine(page, fitting);
      const unsigned shift = shifts_[page];
      Cell* cells = &cells_[page * page_bytes];
      for (; at < here; at += std::size_t{1} << shift) f(cells[at % page_bytes >> shift], at);
    }
  }
  /// The cell of a byte.
  const Cell& at(std::size_t offset) const {
    const std::size_t page = offset / page_bytes;
    return cells_[page * page_bytes + (offset % page_bytes >> shifts_[page])];
  }

 private:
  static constexpr std::size_t page_bytes = 256;
  static constexpr std::uint8_t widest = 2;  ///< a cell of 1 << 2 bytes

  void refine(std::size_t page, unsigned shift) {
    Cell* cells = &cells_[page * page_bytes];
    const unsigned finer = shifts_[page] - shift;
    for (std::size_t i = page_bytes >> shift; i-- > 0;) cells[i] = cells[i >> finer];
    shifts_[page] = static_cast<std::uint8_t>(shift);
  }

  std::vector<std::uint8_t> shifts_;  ///< by page: a cell of it is of 1 << shift bytes
  std::vector<Cell> cells_;           ///< by page, as many as it has bytes
};

}  // namespace lanescope::simt

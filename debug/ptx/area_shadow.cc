#include "debug/ptx/area_shadow.h"

#include <algorithm>
#include <bit>

namespace lanescope::ptx {

using simt::Kind;
using simt::Party;

AreaShadow::AreaShadow(std::size_t bytes, bool written)
    : pages_count_(bytes / page_bytes + 1), pages_(std::make_unique<Page[]>(pages_count_)) {
  if (written) note_write(0, bytes);
}

void AreaShadow::ByteSet::set(std::size_t first, std::size_t count, bool value) {
  for (std::size_t end = first + count; first < end;) {
    const std::size_t here = std::min(end - first, 64 - first % 64);
    const std::uint64_t bits = (~std::uint64_t{0} >> (64 - here)) << first % 64;
    std::uint64_t& word = words_[first / 64];
    word = value ? word | bits : word & ~bits;
    first += here;
  }
}

std::size_t AreaShadow::ByteSet::find_missing(std::size_t first, std::size_t count) const {
  const std::size_t end = first + count;
  while (first < end) {
    const std::size_t in_row =
        static_cast<std::size_t>(std::countr_one(words_[first / 64] >> first % 64));
    if (in_row < 64 - first % 64) return std::min(first + in_row, end);
    first = (first / 64 + 1) * 64;
  }
  return end;
}

std::size_t AreaShadow::ByteSet::count_without(const ByteSet& other) const {
  int count = 0;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    count += std::popcount(words_[i] & ~other.words_[i]);
  }
  return static_cast<std::size_t>(count);
}

template <class F>
void AreaShadow::each_page(std::size_t offset, std::size_t bytes, F&& f) const {
  for (std::size_t at = offset, end = offset + bytes; at < end;) {
    const std::size_t here = std::min(end - at, page_bytes - at % page_bytes);
    f(pages_[at / page_bytes], at % page_bytes, here);
    at += here;
  }
}

void AreaShadow::note_write(std::size_t offset, std::size_t bytes) {
  each_page(offset, bytes, [](Page& page, std::size_t first, std::size_t count) {
    page.written.set(first, count);
  });
}

void AreaShadow::note_copy(std::size_t offset, const AreaShadow& from, std::size_t from_offset,
                           std::size_t bytes) {
  std::vector<bool> written(bytes);
  for (std::size_t i = 0; i < bytes; ++i) written[i] = from.was_written(from_offset + i);
  for (std::size_t i = 0; i < bytes; ++i) {
    pages_[(offset + i) / page_bytes].written.set((offset + i) % page_bytes, 1, written[i]);
  }
}

bool AreaShadow::is_unwritten(std::size_t offset, std::size_t bytes) const {
  bool result = false;
  each_page(offset, bytes, [&](const Page& page, std::size_t first, std::size_t count) {
    const std::lock_guard lock(page.mutex);
    result = result || page.written.find_missing(first, count) != first + count;
  });
  return result;
}

std::size_t AreaShadow::unread() const {
  std::size_t count = 0;
  for (std::size_t page = 0; page < pages_count_; ++page) {
    count += pages_[page].written.count_without(pages_[page].read);
  }
  return count;
}

/// Cells of the launch that runs, in place of those of one before.
void AreaShadow::turn_to_launch(Page& page) const {
  page.last_cells.clear();
  if (beside_last_ && page.launch + 1 == launch_) {
    page.last_cells.swap(page.cells);
    page.last_shift = page.shift;
  }
  page.launch = launch_;
  page.cells.assign(page_bytes >> page.shift, {});
}

/// Narrows the cells of a page so that an access covers whole ones.
void AreaShadow::refine(Page& page, std::size_t offset, std::size_t bytes) {
  const auto fitting = static_cast<unsigned>(std::countr_zero(offset | bytes | 4));
  if (fitting >= page.shift) return;
  const unsigned finer = page.shift - fitting;
  std::vector<Cell> cells(page.cells.size() << finer);
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = page.cells[i >> finer];
  page.cells = std::move(cells);
  page.shift = fitting;
}

AreaShadow::Verdict AreaShadow::enter(std::size_t offset, std::size_t bytes, const Visit& visit,
                                      const BlockOrder& order, Held& held) {
  Verdict found;
  std::size_t page_begin = offset / page_bytes * page_bytes;
  each_page(offset, bytes, [&](Page& page, std::size_t first, std::size_t count) {
    if (held.mutex() != &page.mutex) {
      if (held) held.unlock();
      held = Held(page.mutex);
    }
    if (page.launch != launch_) turn_to_launch(page);
    Verdict here = enter_page(page, first, count, visit, order);
    here.offset += page_begin;
    here.unwritten = here.unwritten || found.unwritten;
    found.unwritten = here.unwritten;
    if (found.kind == Kind::none) found = here;
    page_begin += page_bytes;
  });
  return found;
}

AreaShadow::Verdict AreaShadow::enter_page(Page& page, std::size_t offset, std::size_t bytes,
                                           const Visit& visit, const BlockOrder& order) {
  refine(page, offset, bytes);
  Verdict found;
  found.offset = offset;
  const std::size_t cell_bytes = std::size_t{1} << page.shift;
  for (std::size_t at = offset; at < offset + bytes; at += cell_bytes) {
    Party earlier;
    const Kind kind = enter_cell(page.cells[at >> page.shift], visit, order, earlier);
    if (found.kind != Kind::none || kind == Kind::none) continue;
    found.kind = kind;
    found.earlier = earlier;
    found.offset = at;
  }
  if (!visit.after_last && found.kind == Kind::none) meet_last(page, offset, bytes, visit, found);
  if (visit.write) {
    page.written.set(offset, bytes);
    return found;
  }
  page.read.set(offset, bytes);
  const std::size_t missing = page.written.find_missing(offset, bytes);
  found.unwritten = missing != offset + bytes;
  if (found.unwritten && found.kind == Kind::none) {
    found.kind = Kind::uninitialised_read;
    found.offset = missing;
  }
  return found;
}

void AreaShadow::meet_last(const Page& page, std::size_t offset, std::size_t bytes,
                           const Visit& visit, Verdict& found) {
  const std::size_t cell_bytes = std::size_t{1} << page.last_shift;
  for (std::size_t at = offset / cell_bytes; at * cell_bytes < offset + bytes; ++at) {
    if (at >= page.last_cells.size()) return;
    const Cell& cell = page.last_cells[at];
    const bool written = cell.write.block >= 0;
    const Use& use = written ? cell.write : cell.reads[0];
    if (use.block < 0 || (!written && !visit.write)) continue;
    found.kind = Kind::missing_grid_wait;
    found.offset = std::max(offset, at * cell_bytes);
    found.earlier = {written, use.touch.place, use.block, simt::thread_of(use.touch.epoch)};
    return;
  }
}

Kind AreaShadow::enter_cell(Cell& cell, const Visit& visit, const BlockOrder& order,
                            Party& earlier) {
  const auto is_ordered = [&](const Use& use, bool read = false) {
    if (use.block < 0 || (use.orders && visit.orders)) return true;
    if (use.sent) return order.has_come(use.time, visit.block);
    if (use.block == visit.block) {
      return read ? visit.past.holds_read(use.touch.epoch) : visit.past.holds(use.touch.epoch);
    }
    return read ? order.holds_read(use.block, use.time, visit.block)
                : order.holds(use.block, use.time, visit.block);
  };
  const auto tell = [&](const Use& use, bool wrote) {
    earlier = {wrote, use.touch.place, use.block, simt::thread_of(use.touch.epoch)};
    // Of two blocks either may come first.
    return wrote || use.block != visit.block ? Kind::race : Kind::race_with_read;
  };
  const Use me{visit.touch, static_cast<std::int32_t>(visit.block), visit.time, visit.orders,
               visit.sent};
  Kind kind = Kind::none;
  if (!visit.rewrites && !is_ordered(cell.write)) kind = tell(cell.write, true);
  if (visit.write) {
    // Who sends bytes again to the same place need not know that the first have come, but that they
    // were read.
    const bool again = visit.sent && cell.write.sent && cell.write.block == visit.block;
    for (const Use& read : cell.reads) {
      const bool is_first = kind == Kind::none || (again && earlier.write);
      if (is_first && !is_ordered(read, true)) kind = tell(read, false);
    }
    // The lowest of several blocks is kept: what is found does not depend on which ran first.
    if (cell.write.block < 0 || me.block <= cell.write.block || is_ordered(cell.write)) {
      cell = {me, {}};
    }
    return kind;
  }
  Use& a = cell.reads[0];
  Use& b = cell.reads[1];
  const auto is_me = [&](const Use& use) {
    return use.block == me.block && use.touch.epoch == me.touch.epoch;
  };
  if (is_me(a) || is_me(b)) return kind;
  if (is_ordered(a, true)) {
    a = me;
  } else if (is_ordered(b, true) || a.block == b.block) {
    b = me;
  }
  return kind;
}

}  // namespace lanescope::ptx

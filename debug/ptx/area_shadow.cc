#include "debug/ptx/area_shadow.h"

#include <algorithm>
#include <bit>

namespace lanescope::ptx {

using simt::Kind;
using simt::Party;

void BlockOrder::join(Blocks& to, const Blocks& from) {
  for (const auto& [block, time] : from) to[block] = std::max(to[block], time);
}

std::uint32_t BlockOrder::meet(const void* address, std::int64_t block) {
  const std::lock_guard lock(mutex_);
  used_ = true;
  Blocks& known = known_[block];
  Blocks& passed = passed_[address];
  join(known, passed);
  const std::uint32_t time = ++known[block];
  join(passed, known);
  return time;
}

bool BlockOrder::holds(std::int64_t earlier, std::uint32_t time, std::int64_t later) const {
  if (!used_) return false;
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(later);
  if (known == known_.end()) return false;
  const auto at = known->second.find(earlier);
  return at != known->second.end() && time < at->second;
}

AreaShadow::AreaShadow(std::size_t bytes, bool written)
    : pages_(std::make_unique<Page[]>(bytes / page_bytes + 1)) {
  if (written) note_write(0, bytes);
}

void AreaShadow::note_write(std::size_t offset, std::size_t bytes) {
  for (std::size_t at = offset; at < offset + bytes;) {
    Page& page = pages_[at / page_bytes];
    const std::size_t end = std::min(offset + bytes, (at / page_bytes + 1) * page_bytes);
    if (end - at == page_bytes) {
      page.written.set();
      at = end;
    } else {
      for (; at < end; ++at) page.written.set(at % page_bytes);
    }
  }
}

void AreaShadow::note_copy(std::size_t offset, const AreaShadow& from, std::size_t from_offset,
                           std::size_t bytes) {
  std::vector<bool> written(bytes);
  for (std::size_t i = 0; i < bytes; ++i) written[i] = from.was_written(from_offset + i);
  for (std::size_t i = 0; i < bytes; ++i) {
    pages_[(offset + i) / page_bytes].written[(offset + i) % page_bytes] = written[i];
  }
}

bool AreaShadow::is_unwritten(std::size_t offset, std::size_t bytes) const {
  for (std::size_t at = offset; at < offset + bytes; ++at) {
    const std::lock_guard lock(pages_[at / page_bytes].mutex);
    if (!was_written(at)) return true;
  }
  return false;
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

Kind AreaShadow::enter(std::size_t& offset, std::size_t bytes, const Visit& visit,
                       const BlockOrder& order, Party& earlier) {
  Kind found = Kind::none;
  std::size_t place = offset;
  for (std::size_t at = offset, end = offset + bytes; at < end;) {
    Page& page = pages_[at / page_bytes];
    const std::size_t here = std::min(end, (at / page_bytes + 1) * page_bytes) - at;
    std::size_t in_page = at % page_bytes;
    const std::lock_guard lock(page.mutex);
    if (page.launch != launch_) {
      page.launch = launch_;
      page.cells.assign(page_bytes >> page.shift, {});
    }
    Party its_earlier;
    const Kind kind = enter_page(page, in_page, here, visit, order, its_earlier);
    if (found == Kind::none && kind != Kind::none) {
      found = kind;
      earlier = its_earlier;
      place = at / page_bytes * page_bytes + in_page;
    }
    at += here;
  }
  offset = place;
  return found;
}

Kind AreaShadow::enter_page(Page& page, std::size_t& offset, std::size_t bytes, const Visit& visit,
                            const BlockOrder& order, Party& earlier) {
  refine(page, offset, bytes);
  Kind found = Kind::none;
  std::size_t place = offset;
  const std::size_t cell_bytes = std::size_t{1} << page.shift;
  for (std::size_t at = offset; at < offset + bytes; at += cell_bytes) {
    Party its_earlier;
    const Kind kind = enter_cell(page.cells[at >> page.shift], visit, order, its_earlier);
    if (found != Kind::none || kind == Kind::none) continue;
    found = kind;
    earlier = its_earlier;
    place = at;
  }
  for (std::size_t at = offset; at < offset + bytes; ++at) {
    if (!visit.write && found == Kind::none && !page.written[at]) {
      found = Kind::uninitialised_read;
      place = at;
    }
    if (visit.write) page.written.set(at);
  }
  offset = place;
  return found;
}

Kind AreaShadow::enter_cell(Cell& cell, const Visit& visit, const BlockOrder& order,
                            Party& earlier) {
  const auto is_ordered = [&](const Use& use) {
    if (use.block < 0 || (use.orders && visit.orders)) return true;
    if (use.block == visit.block) return visit.past.holds(use.touch.epoch);
    return order.holds(use.block, use.time, visit.block);
  };
  const auto tell = [&](const Use& use, bool wrote) {
    earlier = {wrote, use.touch.place, use.block, simt::thread_of(use.touch.epoch)};
    // Of two blocks either may come first.
    return wrote || use.block != visit.block ? Kind::race : Kind::race_with_read;
  };
  const Use me{visit.touch, static_cast<std::int32_t>(visit.block), visit.time, visit.orders};
  Kind kind = Kind::none;
  if (!visit.rewrites && !is_ordered(cell.write)) kind = tell(cell.write, true);
  if (visit.write) {
    for (const Use& read : cell.reads) {
      if (kind == Kind::none && !is_ordered(read)) kind = tell(read, false);
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
  if (is_ordered(a)) {
    a = me;
  } else if (is_ordered(b) || a.block == b.block) {
    b = me;
  }
  return kind;
}

}  // namespace lanescope::ptx

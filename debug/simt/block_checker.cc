#include "debug/simt/block_checker.h"

#include <algorithm>
#include <utility>

namespace lanescope::simt {
namespace {

/// What compilers fill local variables with under -ftrivial-auto-var-init=pattern. As a register it
/// is a NaN of fp16 that nothing computes, and -1.7e38 otherwise.
constexpr std::uint32_t unassigned = 0xfefefefe;

}  // namespace

BlockChecker::BlockChecker(Checker& grid, int threads, const std::byte* shared,
                           std::size_t shared_bytes)
    : grid_(grid),
      clocks_(threads),
      shared_(shared),
      shared_bytes_(shared_bytes),
      cells_(shared_bytes),
      passed_(static_cast<std::size_t>(threads)),
      held_(static_cast<std::size_t>(threads)) {}

void BlockChecker::begin(std::int64_t block) {
  block_ = block;
  clocks_.reset();
  cells_.reset();
  std::fill(passed_.begin(), passed_.end(), Progress{});
  for (auto& values : held_) values.clear();
  found_.clear();
  suspected_.clear();
  async_.reset();
  issuers_.clear();
  early_.clear();
  own_copies_.clear();
  misaligned_ = {-1, nullptr};
  issued_.clear();
  waits_.clear();
  sources_.clear();
  last_copy_place_ = 0;
}

void BlockChecker::end() {
  for (auto& [place, early] : early_) {
    for (const Finding& finding : early.reads) merge(found_, finding);
  }
  const bool any = std::any_of(found_.begin(), found_.end(),
                               [](const Finding& finding) { return is_fault(finding.kind); });
  if (any) found_.insert(found_.end(), suspected_.begin(), suspected_.end());
  for (Finding& finding : found_) name_register(finding);
  grid_.take(block_, std::move(found_));
}

void BlockChecker::pass(Progress progress, const void* value, std::size_t bytes, int thread) {
  passed_[static_cast<std::size_t>(thread)] = progress;
  auto& values = held_[static_cast<std::size_t>(thread)];
  const Held held{progress.site, static_cast<const std::byte*>(value), bytes};
  const auto known = std::find_if(values.begin(), values.end(),
                                  [&](const Held& h) { return h.site == progress.site; });
  if (known == values.end()) {
    values.push_back(held);
  } else {
    *known = held;
  }
}

void BlockChecker::name_register(Finding& finding) const {
  if (!finding.address) return;
  const auto* address = static_cast<const std::byte*>(finding.address);
  for (const Held& held : held_[static_cast<std::size_t>(finding.access.thread)]) {
    if (address < held.value || address >= held.value + held.bytes) continue;
    finding.site_of_register = held.site;
    finding.offset = address - held.value;
    return;
  }
}

void BlockChecker::add(Kind kind, const Party& access, const Party& earlier, int region,
                       std::int64_t offset, std::size_t bytes) {
  const Progress passed = passed_[static_cast<std::size_t>(access.thread)];
  Finding finding{kind, access, earlier, passed, region, offset, static_cast<int>(bytes), 1};
  if (earlier.thread >= 0) {
    finding.earlier_passed = passed_[static_cast<std::size_t>(earlier.thread)];
  }
  if (kind == Kind::out_of_bounds) finding.map = copies_by_;
  if (kind == Kind::missing_wait && add_under_way(finding)) return;
  report(finding);
}

void BlockChecker::note_misaligned(Access access, const void* address, const void* pc, int thread) {
  // An access may be checked in both ways.
  if (std::exchange(misaligned_, {thread, address}) == std::pair(thread, address)) return;
  const bool shared = in_shared(address, 1);
  const std::size_t offset = shared ? number(address) - number(shared_) : 0;
  add(Kind::misaligned, {access != Access::read, grid_.place_of(pc), block_, thread}, {},
      shared ? shared_region : nowhere, static_cast<std::int64_t>(offset), 1);
}

void BlockChecker::note_beyond_array(std::int64_t index, std::int64_t length, const void* pc,
                                     int thread) {
  add(Kind::beyond_array, {false, grid_.place_of(pc), block_, thread}, {}, nowhere, index,
      static_cast<int>(length));
}

bool BlockChecker::access(Access access, const void* address, std::size_t bytes,
                          std::size_t alignment, const void* pc, int thread) {
  const bool is_misaligned = number(address) % alignment != 0;
  if (in_shared(address, bytes)) {
    if (is_misaligned) note_misaligned(access, address, pc, thread);
    enter_shared(number(address) - number(shared_), bytes, access, 0, pc, thread);
    return true;
  }
  if (grid_.is_exempt(number(address))) return true;
  const bool goes_on = enter_global(access, address, bytes, pc, thread);
  if (is_misaligned) note_misaligned(access, address, pc, thread);
  return goes_on;
}

void BlockChecker::write_from_outside(const void* address, std::size_t bytes) {
  constexpr Epoch known_to_all = epoch_of(1, 0);
  const std::size_t offset = number(address) - number(shared_);
  cells_.each(offset, bytes, [](Cell& cell, std::size_t) { cell = {{known_to_all, 0}, {}}; });
}

bool BlockChecker::is_unwritten(const void* address, std::size_t bytes) const {
  const std::size_t offset = number(address) - number(shared_);
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    if (cells_.at(i).write.epoch == 0) return true;
  }
  return false;
}

UnwrittenRun BlockChecker::unwritten_run(const void* address) const {
  constexpr std::size_t most = 64;
  const auto is_written = [&](std::size_t at) { return cells_.at(at).write.epoch != 0; };
  const std::size_t at = number(address) - number(shared_);
  std::size_t begin = at, end = at;
  while (end < shared_bytes_ && end - at < most && !is_written(end)) ++end;
  while (begin > 0 && end - begin < most && !is_written(begin - 1)) --begin;
  std::size_t before = begin, behind = end;
  while (before > 0 && begin - before < most && is_written(before - 1)) --before;
  while (behind < shared_bytes_ && behind - end < most && is_written(behind)) ++behind;
  const std::size_t beside =
      behind == end ? begin - before : std::min(begin - before, behind - end);
  return {static_cast<int>(end - begin), static_cast<int>(beside)};
}

void BlockChecker::enter_shared(std::size_t offset, std::size_t bytes, Access access, Epoch flag,
                                const void* pc, int thread) {
  const bool write = access != Access::read;
  if (write && async_) check_generic_write(offset, bytes, pc, thread);
  const Touch me{clocks_.now(thread) | flag, grid_.place_of(pc)};
  const Past past = clocks_.past(thread);
  Kind found = Kind::none;
  Touch earlier;
  std::size_t at = offset;
  cells_.each(offset, bytes, [&](Cell& cell, std::size_t i) {
    Touch before;
    if (!write && cell.write.epoch == 0) met_unwritten_ = true;
    const Kind kind =
        write ? enter_write(cell, me, past, before) : enter_read(cell, me, past, before);
    if (kind == Kind::none || found != Kind::none) return;
    if (kind == Kind::uninitialised_read && follows_unwritten_) return;
    const bool by_agent = thread_of(before.epoch) >= clocks_.threads();
    const bool under_way = by_agent || (before.epoch & in_flight) != 0;
    if (kind == Kind::race && access == Access::rewrite && !under_way) return;
    found = kind == Kind::race && by_agent ? Kind::missing_wait : kind;
    const bool of_other_lane = found == Kind::missing_wait && !by_agent && !write;
    if (of_other_lane && has_waited_for_own(thread, before)) found = Kind::race;
    earlier = before;
    at = i;
  });
  if (found == Kind::none) return;
  add(found, {write, me.place, block_, thread}, party_of(earlier, found != Kind::race_with_read),
      shared_region, static_cast<std::int64_t>(at), bytes);
}

bool BlockChecker::enter_global(Access access, const void* address, std::size_t bytes,
                                const void* pc, int thread) {
  const bool write = access != Access::read;
  const std::uintptr_t at = number(address);
  const Party party{write, grid_.place_of(pc), block_, thread};
  const auto& regions = grid_.regions();
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const Region& region = regions[i];
    const std::uintptr_t offset = at - number(region.begin);
    if (offset >= region.bytes || bytes > region.bytes - offset) continue;
    const auto index = static_cast<int>(i);
    if (region.use == Region::Use::input) {
      if (write)
        add(Kind::write_to_input, party, {}, index, static_cast<std::int64_t>(offset), bytes);
      return true;
    }
    const Touch me{clocks_.now(thread), party.place};
    bool reported = false;
    for (std::size_t j = offset / region.element * region.element; j < offset + bytes;
         j += region.element) {
      Party earlier;
      const Kind kind = grid_.enter(region, j, write, access == Access::rewrite, block_, me,
                                    clocks_.past(thread), earlier);
      if (kind == Kind::none || std::exchange(reported, true)) continue;
      if (kind == Kind::uninitialised_read) earlier = {};
      add(kind, party, earlier, index, static_cast<std::int64_t>(j), bytes);
    }
    return true;
  }
  // Outside of everything: named by the buffer whose guard it hits.
  const auto near = [&](const void* begin, std::size_t size) {
    return at + guard_bytes >= number(begin) && at + bytes <= number(begin) + size + guard_bytes;
  };
  const auto offset_in = [&](const void* begin) {
    return static_cast<std::int64_t>(at - number(begin));
  };
  if (near(shared_, shared_bytes_)) {
    add(Kind::out_of_bounds, party, {}, shared_region, offset_in(shared_), bytes);
    return true;
  }
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (!near(regions[i].begin, regions[i].bytes)) continue;
    add(Kind::out_of_bounds, party, {}, static_cast<int>(i), offset_in(regions[i].begin), bytes);
    return true;
  }
  add(Kind::out_of_bounds, party, {}, nowhere, 0, bytes);
  return false;
}

void BlockChecker::pass_register(std::uint32_t word, const void* pc, int thread) {
  if (word == unassigned) use_unwritten_register(pc, thread);
}

void BlockChecker::use_unwritten_register(const void* pc, int thread) {
  use_unwritten_register_at(grid_.place_of(pc), thread);
}

void BlockChecker::use_unwritten_register_at(std::uint32_t place, int thread) {
  add(Kind::uninitialised_register, {false, place, block_, thread}, {}, registers_region, 0, 4);
}

}  // namespace lanescope::simt

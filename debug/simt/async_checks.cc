// What the memory checker knows of the asynchronous proxy (PTX ISA, "Memory Consistency Model",
// proxies): copies of tensors, products of warpgroups, and the fences between them and the accesses
// of lanes.

#include <algorithm>
#include <map>

#include "debug/simt/async_block.h"
#include "debug/simt/async_shadow.h"
#include "debug/simt/block_checker.h"

namespace lanescope::simt {

void AsyncShadow::read(std::size_t offset, const AsyncWork& work, Epoch issued) {
  auto reader = std::find_if(readers_.begin(), readers_.end(),
                             [&](const Reader& r) { return r.agent == work.agent; });
  if (reader == readers_.end()) {
    reader = readers_.insert(
        readers_.end(), {work.agent, std::vector<Touch>(chunks_), std::vector<Epoch>(chunks_)});
  }
  Touch& last = reader->last[offset / chunk];
  // The warps of a warpgroup may be groups apart.
  const Epoch now = epoch_of(work.agent, work.clock);
  if (last.epoch > now) return;
  last = {now, work.place};
  reader->issued[offset / chunk] = issued;
}

AsyncShadow::PendingRead AsyncShadow::pending_read(std::size_t offset, Past past) const {
  for (const Reader& reader : readers_) {
    const Touch& touch = reader.last[offset / chunk];
    if (touch.epoch == 0 || past.holds(touch.epoch)) continue;
    return {touch, past.holds(reader.issued[offset / chunk])};
  }
  return {};
}

AsyncShadow& BlockChecker::async() {
  if (!async_) async_ = std::make_unique<AsyncShadow>(shared_bytes_);
  return *async_;
}

int BlockChecker::add_agent(int thread) {
  const int agent = clocks_.add_agent();
  if (agent != 0) issuers_.push_back(thread);
  return agent;
}

int BlockChecker::thread_behind(Epoch e) const {
  const int thread = thread_of(e), threads = clocks_.threads();
  return thread < threads ? thread : issuers_[static_cast<std::size_t>(thread - threads)];
}

Party BlockChecker::party_of(const Touch& touch, bool write) const {
  if (touch.epoch == 0) return {};
  const int agent = thread_of(touch.epoch);
  return {write, touch.place, block_, thread_behind(touch.epoch),
          agent < clocks_.threads() ? 0 : agent};
}

void BlockChecker::guard_barrier(std::size_t offset, std::uint32_t place, int thread) {
  // What the lane does to it is a write, which others must come after.
  const Touch me{clocks_.now(thread), place};
  cells_.each(offset, 8, [&](Cell& cell, std::size_t) { cell.write = me; });
  async().guarded(offset) = place;
}

void BlockChecker::add_shared(Kind kind, const AsyncWork& work, bool write, const Party& earlier,
                              std::size_t offset, std::size_t bytes) {
  add(kind, {write, work.place, block_, work.thread}, earlier, shared_region,
      static_cast<std::int64_t>(offset), bytes);
}

void BlockChecker::check_generic_write(std::size_t offset, std::size_t bytes, const void* pc,
                                       int thread) {
  const AsyncWork me{0, 0, grid_.place_of(pc), thread};
  for (std::size_t i = offset; i < offset + bytes; i = (i / 8 + 1) * 8) {
    if (const std::uint32_t place = async_->guarded(i); place != 0) {
      add_shared(Kind::barrier_overwritten, me, true, {true, place, block_, thread}, i, bytes);
      return;
    }
    const Touch read = async_->pending_read(i, clocks_.past(thread)).touch;
    if (read.epoch == 0) continue;
    add_shared(Kind::operand_overwritten, me, true, party_of(read, false), i, bytes);
    return;
  }
}

bool BlockChecker::is_generic(const Touch& write) const {
  if (write.epoch == 0) return false;
  return thread_of(write.epoch) < clocks_.threads() || generic_places_.contains(write.place);
}

void BlockChecker::write_async(std::size_t offset, std::size_t bytes, const AsyncWork& work) {
  const Touch me{epoch_of(work.agent, work.clock), work.place};
  const Past past = clocks_.past(work.thread);
  const int threads = clocks_.threads();
  issuers_[static_cast<std::size_t>(work.agent - threads)] = work.thread;
  if (work.generic) generic_places_.insert(work.place);
  issued_[work.agent] = work.clock;
  Kind found = Kind::none;
  Party other;
  std::size_t at = offset;
  bool of_other_side = false;
  Touch unfenced_read;
  bool released = false;
  cells_.each(offset, bytes, [&](Cell& cell, std::size_t i) {
    const Touch before = cell.write;
    for (const Touch& read : cell.reads) {
      const bool is_read = !work.generic && !work.from_outside && read.epoch != 0;
      if (is_read && !clocks_.fenced(work.thread, read.epoch)) unfenced_read = read;
    }
    if (i == offset || i % AsyncShadow::chunk == 0) {
      of_other_side = async().is_of_other_side(i, work);
    }
    const bool unfenced =
        !work.generic && is_generic(before) && !clocks_.fenced(work.thread, before.epoch);
    Touch earlier;
    Kind kind = enter_write(cell, me, past, earlier);
    if (kind == Kind::race && thread_of(before.epoch) >= threads) kind = Kind::missing_wait;
    if (kind == Kind::none && unfenced) {
      kind = Kind::missing_proxy_fence;
      earlier = before;
    }
    if (kind == Kind::none && i % 8 == 0) {
      const AsyncShadow::PendingRead read = async().pending_read(i, past);
      earlier = read.touch;
      if (earlier.epoch != 0) kind = Kind::operand_overwritten;
      released = read.released;
      if (const std::uint32_t place = async().guarded(i); place != 0) {
        kind = Kind::barrier_overwritten;
        earlier = {clocks_.now(work.thread), place};
      }
    }
    // Two blocks bring it in one phase: who waits for that cannot know which came last.
    const bool in_one_phase = of_other_side && before.epoch == me.epoch;
    if (in_one_phase) kind = Kind::copies_overlap, earlier = before;
    const bool is_known = in_one_phase || !work.from_outside;
    if (kind == Kind::none || found != Kind::none || !is_known) return;
    found = kind;
    other = party_of(earlier, kind != Kind::race_with_read && kind != Kind::operand_overwritten);
    other.released = kind == Kind::operand_overwritten && released;
    at = i;
  });
  if (found != Kind::none) {
    add_shared(found, work, true, other, at, bytes);
  } else if (unfenced_read.epoch != 0) {
    add_shared(Kind::unfenced_read, work, true, party_of(unfenced_read, false), offset, bytes);
  }
}

BlockChecker::Misread BlockChecker::misread(std::size_t offset, std::size_t bytes,
                                            const AsyncWork& work) {
  const Past past = work.known ? Past(work.known->seen.data()) : clocks_.past(work.thread);
  const auto fenced = [&](Epoch e) {
    if (!work.known) return clocks_.fenced(work.thread, e);
    return !work.known->fenced.empty() && Past(work.known->fenced.data()).holds(e);
  };
  const int threads = clocks_.threads();
  Misread first;
  for (std::size_t i = offset; i < offset + bytes && first.kind == Kind::none;
       i += AsyncShadow::chunk) {
    cells_.each(i, AsyncShadow::chunk, [&](const Cell& cell, std::size_t j) {
      const Touch& write = cell.write;
      Kind kind = Kind::none;
      if (write.epoch == 0) {
        kind = Kind::uninitialised_read;
      } else if (!past.holds(write.epoch)) {
        kind = thread_of(write.epoch) >= threads ? Kind::missing_wait : Kind::race;
      } else if (write.epoch & in_flight) {
        kind = Kind::missing_wait;
      } else if (is_generic(write) && !fenced(write.epoch) && !copy_places_.contains(write.place)) {
        kind = Kind::missing_proxy_fence;
      }
      if (kind != Kind::none && first.kind == Kind::none) first = {kind, write, j};
    });
  }
  return first;
}

void BlockChecker::read_async(std::size_t offset, std::size_t bytes, const AsyncWork& work) {
  const auto [kind, write, at] = misread(offset, bytes, work);
  for (std::size_t i = offset; i < offset + bytes; i += AsyncShadow::chunk)
    async().read(i, work, clocks_.now(work.thread));
  if (kind != Kind::none) add_shared(kind, work, false, party_of(write, true), at, bytes);
}

const Origin* BlockChecker::origin_of(std::size_t offset) {
  const Epoch e = cells_.at(offset).write.epoch;
  if (e == 0 || thread_of(e) < clocks_.threads()) return nullptr;
  const Origin& origin = async().origin(offset);
  return origin.copy == 0 ? nullptr : &origin;
}

void BlockChecker::note_arrivals(std::size_t offset, const std::vector<Arrival>& arrivals,
                                 int count) {
  if (static_cast<int>(arrivals.size()) != count) return;
  const bool ran_ahead = std::any_of(found_.begin(), found_.end(), [](const Finding& finding) {
    return finding.kind == Kind::missing_wait || finding.kind == Kind::wrong_phase;
  });
  std::map<int, std::uint32_t> seen;
  for (const Arrival& a : arrivals) {
    if (a.repeats) continue;
    const auto [first, is_new] = seen.emplace(a.thread, a.place);
    if (is_new) continue;
    merge(suspected_, {Kind::double_arrival,
                       {true, a.place, block_, a.thread},
                       {true, first->second, block_, a.thread},
                       passed_[static_cast<std::size_t>(a.thread)],
                       shared_region,
                       static_cast<std::int64_t>(offset),
                       8,
                       1,
                       {},
                       ran_ahead});
  }
}

void BlockChecker::note_overtaken_wait(std::size_t offset, int thread, std::uint32_t place,
                                       std::uint32_t copied) {
  merge(found_, {Kind::overtaken_wait,
                 {false, place, block_, thread},
                 {true, copied, block_, thread},
                 passed_[static_cast<std::size_t>(thread)],
                 shared_region,
                 static_cast<std::int64_t>(offset),
                 8,
                 1});
}

void BlockChecker::note_all_bytes_came(std::size_t offset) {
  for (Finding& finding : found_) {
    const bool is_its = finding.kind == Kind::wrong_expect_tx &&
                        finding.offset == static_cast<std::int64_t>(offset);
    finding.behind_missing_wait = finding.behind_missing_wait || is_its;
  }
}

void BlockChecker::add_unfinished(bool arrives, int thread, std::uint32_t place) {
  add(Kind::unfinished_copy, {arrives, place, block_, thread}, {}, nowhere, 0, 0);
}

void BlockChecker::touch_register(Kind kind, bool write, std::uint32_t place, std::uint32_t issued,
                                  int thread, const void* address) {
  const Progress passed = passed_[static_cast<std::size_t>(thread)];
  Finding finding{kind,
                  {write, place, block_, thread},
                  {true, issued, block_, thread},
                  passed,
                  registers_region,
                  0,
                  4,
                  1};
  finding.address = address;
  merge(found_, finding);
}

}  // namespace lanescope::simt

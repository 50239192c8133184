// What the memory checker knows of the copies of lanes (cp.async) and of waits for copies: which
// are under way, and which come too early.

#include <algorithm>
#include <utility>

#include "debug/simt/block_checker.h"

namespace lanescope::simt {

bool BlockChecker::add_under_way(Finding& finding) {
  const Party &access = finding.access, &copy = finding.earlier;
  auto wait = waits_.find({access.thread, copy.agent});
  // Who has waited elsewhere alone waits for another copy, whatever its phase.
  const bool is_own = wait != waits_.end();
  if (!is_own) wait = waits_.find({access.thread, any_agent});
  if (wait != waits_.end()) {
    finding.waited = {false, wait->second.place, block_, access.thread};
    if (is_own && wait->second.in_vain) finding.kind = Kind::wrong_phase;
    const auto issued = issued_.find(copy.agent);
    const bool is_later = issued != issued_.end() && issued->second > wait->second.phases;
    const bool may_be_early =
        !access.write && wait->second.phases > 0 && is_later && wait->first.second == copy.agent;
    if (may_be_early && finding.kind == Kind::missing_wait) {
      EarlyCopies& early = early_[wait->first];
      early.phase = issued->second;
      merge(early.reads, finding);
      return true;
    }
  }
  if (access.write && overlap(access, copy)) finding.kind = Kind::copies_overlap;
  return false;
}

void BlockChecker::report(Finding finding) {
  const auto wait = waits_.find({finding.access.thread, any_agent});
  const bool waited = finding.kind == Kind::uninitialised_read && finding.region == shared_region &&
                      wait != waits_.end();
  // It does not wait for who writes them.
  if (waited && wait->second.in_vain) {
    finding.kind = Kind::wrong_phase;
    finding.waited = {false, wait->second.place, block_, finding.access.thread};
  }
  merge(found_, finding);
}

void BlockChecker::note_wait_at(int agent, int thread, std::uint32_t place, bool in_vain,
                                std::uint32_t phases) {
  waits_[{thread, agent}] = waits_[{thread, any_agent}] = {place, in_vain, phases};
  const auto early = early_.find({thread, agent});
  if (early == early_.end() || early->second.phase > phases) return;
  // It waits for each: the copy is what comes too early.
  for (Finding& finding : early->second.reads) {
    finding.kind = Kind::operand_overwritten;
    std::swap(finding.access, finding.earlier);
    std::swap(finding.passed, finding.earlier_passed);
    finding.waited = {};
    merge(found_, finding);
  }
  early_.erase(early);
}

bool BlockChecker::issue_copy(void* to, const void* from, std::size_t bytes, std::size_t valid,
                              const void* pc, int thread) {
  if (valid > 0 && !access(Access::read, from, valid, 1, pc, thread)) return false;
  if (!in_shared(to, bytes)) return enter_global(Access::write, to, bytes, pc, thread);
  if (const std::uint32_t place = grid_.place_of(pc); place != last_copy_place_) {
    copy_places_.insert(last_copy_place_ = place);
    const auto& regions = grid_.regions();
    const auto source = std::ranges::find_if(
        regions, [&](const Region& r) { return number(from) - number(r.begin) < r.bytes; });
    if (from && source != regions.end())
      sources_[place] = static_cast<int>(source - regions.begin());
  }
  enter_shared(number(to) - number(shared_), bytes, Access::write, in_flight, pc, thread);
  own_copies_[{thread, grid_.place_of(pc)}].under_way.insert(clock_of(clocks_.now(thread)));
  return true;
}

bool BlockChecker::has_waited_for_own(int thread, const Touch& copy) const {
  const auto own = own_copies_.find({thread, copy.place});
  if (own == own_copies_.end() || thread == thread_of(copy.epoch)) return false;
  const auto& [under_way, done] = own->second;
  const std::uint32_t then = clock_of(copy.epoch);
  return done >= then && (under_way.empty() || *under_way.begin() > then);
}

bool BlockChecker::overlap(const Party& one, const Party& other) const {
  const auto a = sources_.find(one.place), b = sources_.find(other.place);
  return a != sources_.end() && b != sources_.end() && a->second != b->second;
}

void BlockChecker::complete_copy(const void* to, std::size_t bytes, int thread) {
  if (!in_shared(to, bytes)) return;
  const Epoch now = clocks_.now(thread);
  const std::size_t offset = number(to) - number(shared_);
  const auto is_own = [&](Epoch e) { return (e & in_flight) != 0 && thread_of(e) == thread; };
  if (const Touch copied = cells_.at(offset).write; is_own(copied.epoch)) {
    auto& [under_way, done] = own_copies_[{thread, copied.place}];
    const auto one = under_way.find(clock_of(copied.epoch));
    if (one != under_way.end()) under_way.erase(one);
    done = std::max(done, clock_of(copied.epoch));
  }
  cells_.each(offset, bytes, [&](Cell& cell, std::size_t) {
    if (is_own(cell.write.epoch)) cell.write.epoch = now;
  });
}

}  // namespace lanescope::simt

#include "debug/ptx/block_order.h"

#include <algorithm>
#include <iterator>

namespace lanescope::ptx {

void BlockOrder::join(Blocks& to, const Blocks& from) {
  for (const auto& [block, time] : from) to[block] = std::max(to[block], time);
}

void BlockOrder::Knowledge::meet(const void* address, std::int64_t block, std::uint32_t time,
                                 bool tells) {
  Blocks& mine = known[block];
  Blocks& theirs = passed[address];
  join(mine, theirs);
  mine[block] = time;
  if (tells) join(theirs, mine);
}

bool BlockOrder::Knowledge::holds(std::int64_t earlier, std::uint32_t time,
                                  std::int64_t later) const {
  const auto mine = known.find(later);
  if (mine == known.end()) return false;
  const auto at = mine->second.find(earlier);
  return at != mine->second.end() && time < at->second;
}

std::uint32_t BlockOrder::meet(const void* address, std::int64_t block, bool of_reads) {
  const std::lock_guard lock(mutex_);
  used_ = true;
  if (const auto here = arrivals_.find(address); here != arrivals_.end()) here->second.met = true;
  if (of_reads && !of_reads_) of_reads_ = all_;
  const std::uint32_t time = ++times_[block];
  all_.meet(address, block, time, !of_reads);
  if (of_reads_) of_reads_->meet(address, block, time, true);
  return time;
}

std::uint32_t BlockOrder::send(const void* full) {
  const std::lock_guard lock(mutex_);
  used_ = true;
  const auto [at, is_new] = arrivals_.try_emplace(full);
  Arrivals& arrivals = at->second;
  if (is_new) arrivals.block = -1 - std::ssize(arrivals_);
  // What nobody has met between is known to the same blocks.
  if (!is_new && !arrivals.met) return arrivals.sent;
  arrivals.met = false;
  arrivals.sent = static_cast<std::uint32_t>(events_.size());
  events_.emplace_back(arrivals.block, arrivals.time++);
  all_.passed[full][arrivals.block] = arrivals.time;
  if (of_reads_) of_reads_->passed[full][arrivals.block] = arrivals.time;
  return arrivals.sent;
}

bool BlockOrder::has_come(std::uint32_t sent, std::int64_t later) const {
  const std::lock_guard lock(mutex_);
  return all_.holds(events_[sent].first, events_[sent].second, later);
}

bool BlockOrder::is_known(std::int64_t earlier, std::uint32_t time, std::int64_t later,
                          bool read) const {
  const std::lock_guard lock(mutex_);
  return (read && of_reads_ ? *of_reads_ : all_).holds(earlier, time, later);
}

}  // namespace lanescope::ptx

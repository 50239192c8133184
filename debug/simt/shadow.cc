#include "debug/simt/shadow.h"

#include <algorithm>
#include <utility>

namespace lanescope::simt {
namespace {

/// Raises `count` clocks to others. They are below 2^31, and compilers compare eight numbers with a
/// sign at once.
void raise_all(std::uint32_t* __restrict clocks, const std::uint32_t* __restrict others,
               std::size_t count) {
  constexpr std::size_t chunk = 8;
  std::size_t i = 0;
  for (; i + chunk <= count; i += chunk) {
    for (std::size_t j = i; j < i + chunk; ++j) {
      const auto a = static_cast<std::int32_t>(clocks[j]), b = static_cast<std::int32_t>(others[j]);
      clocks[j] = static_cast<std::uint32_t>(a > b ? a : b);
    }
  }
  for (; i < count; ++i) clocks[i] = std::max(clocks[i], others[i]);
}

}  // namespace

Clocks::Clocks(int threads)
    : threads_(static_cast<std::size_t>(threads)),
      columns_(threads_),
      seen_(threads_ * threads_),
      exchanged_(threads_),
      joined_(threads_) {
  reset();
}

void Clocks::reset() {
  std::fill(seen_.begin(), seen_.end(), 0u);
  for (int i = 0; i < static_cast<int>(threads_); ++i) seen_[index(i, i)] = 1;
  std::fill(exchanged_.begin(), exchanged_.end(), 0u);
  fenced_.clear();
  passed_.clear();
  agents_ = 0;
  overflowed_ = false;
}

int Clocks::add_agent() {
  if (agents_ == most_agents) return 0;
  if (columns_ == threads_) {  // few blocks have any
    const std::size_t columns = columns_ + most_agents;
    for (auto* clocks : {&seen_, &fenced_}) {
      if (clocks->empty()) continue;
      std::vector<std::uint32_t> wide(threads_ * columns);
      for (std::size_t i = 0; i < threads_; ++i) {
        std::copy_n(&(*clocks)[i * columns_], columns_, &wide[i * columns]);
      }
      *clocks = std::move(wide);
    }
    columns_ = columns;
    joined_.resize(columns_);
  }
  return static_cast<int>(threads_) + agents_++;
}

void Clocks::advance(int thread) {
  std::uint32_t& clock = seen_[index(thread, thread)];
  if (clock == clock_limit) {
    overflowed_ = true;
  } else {
    ++clock;
  }
}

void Clocks::join(std::vector<std::uint32_t>& into, const std::uint32_t* from, std::size_t count) {
  into.resize(count);
  raise_all(into.data(), from, count);
}

void Clocks::meet(std::span<const int> threads) {
  for (auto* clocks : {&seen_, &fenced_}) {
    if (clocks->empty()) continue;
    std::fill(joined_.begin(), joined_.end(), 0u);
    for (const int thread : threads) join(joined_, &(*clocks)[index(thread, 0)], columns_);
    for (const int thread : threads) {
      std::copy(joined_.begin(), joined_.end(), &(*clocks)[index(thread, 0)]);
    }
  }
  for (const int thread : threads) advance(thread);
}

void Clocks::share_waits(std::span<const int> threads) {
  for (std::size_t agent = threads_; agent < columns_; ++agent) {
    std::uint32_t latest = 0;
    for (const int thread : threads) raise(latest, seen_[index(thread, static_cast<int>(agent))]);
    for (const int thread : threads) seen_[index(thread, static_cast<int>(agent))] = latest;
  }
}

void Clocks::exchange(int warp) {
  for (int thread = warp * 32; thread < (warp + 1) * 32; ++thread) {
    exchanged_[static_cast<std::size_t>(thread)] = own(thread);
    advance(thread);
  }
}

void Clocks::give(Carried& carried, int thread) {
  join(carried.seen, &seen_[index(thread, 0)], columns_);
  if (!fenced_.empty()) join(carried.fenced, &fenced_[index(thread, 0)], columns_);
  advance(thread);
}

void Clocks::take(const std::vector<std::uint32_t>& seen, int thread) {
  for (std::size_t i = 0; i < seen.size(); ++i) raise(seen_[index(thread, 0) + i], seen[i]);
}

void Clocks::take(const Carried& carried, int thread) {
  take(carried.seen, thread);
  if (fenced_.empty()) return;
  for (std::size_t i = 0; i < carried.fenced.size(); ++i) {
    raise(fenced_[index(thread, 0) + i], carried.fenced[i]);
  }
}

void Clocks::learn(Carried& carried, int agent, std::uint32_t clock) {
  carried.seen.resize(columns_);
  raise(carried.seen[static_cast<std::size_t>(agent)], clock);
}

void Clocks::fence(int thread) {
  fenced_.resize(seen_.size());
  std::copy_n(&seen_[index(thread, 0)], columns_, &fenced_[index(thread, 0)]);
  advance(thread);
}

void Clocks::acquire(const void* address, int thread) {
  const auto passed = passed_.find(address);
  if (passed != passed_.end()) take(passed->second, thread);
}

void Clocks::release(const void* address, int thread) {
  const std::uint32_t* seen = &seen_[index(thread, 0)];
  passed_[address].assign(seen, seen + columns_);
  advance(thread);
}

}  // namespace lanescope::simt

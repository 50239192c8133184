#include "debug/simt/shadow.h"

#include <algorithm>

namespace lanescope::simt {

Clocks::Clocks(int threads)
    : threads_(static_cast<std::size_t>(threads)), seen_(threads_ * threads_), joined_(threads_) {
  reset();
}

void Clocks::reset() {
  std::fill(seen_.begin(), seen_.end(), 0u);
  for (int i = 0; i < static_cast<int>(threads_); ++i) seen_[index(i, i)] = 1;
  passed_.clear();
  overflowed_ = false;
}

void Clocks::advance(int thread) {
  std::uint32_t& clock = seen_[index(thread, thread)];
  if (clock == clock_limit) {
    overflowed_ = true;
  } else {
    ++clock;
  }
}

void Clocks::meet(std::span<const int> threads) {
  std::fill(joined_.begin(), joined_.end(), 0u);
  for (const int thread : threads) {
    const std::uint32_t* seen = &seen_[index(thread, 0)];
    for (std::size_t i = 0; i < threads_; ++i) joined_[i] = std::max(joined_[i], seen[i]);
  }
  for (const int thread : threads) {
    std::copy(joined_.begin(), joined_.end(), &seen_[index(thread, 0)]);
    advance(thread);
  }
}

void Clocks::acquire(const void* address, int thread) {
  const auto passed = passed_.find(address);
  if (passed == passed_.end()) return;
  std::uint32_t* seen = &seen_[index(thread, 0)];
  for (std::size_t i = 0; i < threads_; ++i) seen[i] = std::max(seen[i], passed->second[i]);
}

void Clocks::release(const void* address, int thread) {
  const std::uint32_t* seen = &seen_[index(thread, 0)];
  passed_[address].assign(seen, seen + threads_);
  advance(thread);
}

}  // namespace lanescope::simt

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lanescope::reference {

/// Calls `work(i)` once for every i in [0, count), spread over `threads` threads (0: all cores), on
/// fewer where the system starts no more. Calls run in any order; rethrows the first exception
/// caught.
template <typename Work>
void parallel_for(std::int64_t count, int threads, const Work& work) {
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  const auto drain = [&] {
    try {
      for (std::int64_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard<std::mutex> guard(failure_lock);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t used = std::min(count, threads > 0 ? std::int64_t{threads} : cores);
  std::vector<std::thread> helpers;
  try {
    helpers.reserve(static_cast<std::size_t>(std::max<std::int64_t>(0, used - 1)));
    for (std::int64_t i = 1; i < used; ++i) helpers.emplace_back(drain);
  } catch (const std::exception&) {  // fewer threads do as well
  }
  drain();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lanescope::reference

#include "debug/simt/machine.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "debug/simt/block.h"
#include "debug/simt/checker.h"
#include "debug/simt/last_words.h"

namespace lanescope::simt {

std::optional<Fault> run_blocks(
    std::int64_t begin, std::int64_t end, int workers,
    const std::function<std::function<void(std::int64_t)>(Sitting&)>& sit_down) {
  const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto count =
      static_cast<int>(std::min<std::int64_t>(workers > 0 ? workers : cores, end - begin));
  std::atomic<std::int64_t> next{begin};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::optional<Fault> first;
  std::exception_ptr failure;  // of the machine itself, which lacks memory

  // Blocks are handed out in order, so every block below a faulty one runs to its end and the
  // lowest fault is found whatever the timing.
  const auto sit = [&] {
    Sitting sitting;
    const std::function<void(std::int64_t)> run = sit_down(sitting);
    while (!stop && !Sitting::must_stop()) {
      sitting.take_block();
      const std::int64_t block = next++;
      if (block >= end) return;
      try {
        run(block);
      } catch (const Fault& fault) {
        stop = true;
        const std::lock_guard lock(mutex);
        if (!first || fault.block() < first->block()) first = fault;
      }
    }
  };
  const auto work = [&] {
    try {
      sit();
    } catch (...) {
      stop = true;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    others.reserve(static_cast<std::size_t>(count));
    for (int i = 1; i < count; ++i) others.emplace_back(work);
  } catch (const std::exception&) {  // fewer threads do as well
  }
  work();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
  return first;
}

void launch(const Launch& launch, void (*kernel)(const void*), const void* arguments) {
  note_pass();
  if (launch.checker) {
    launch.checker->begin(reinterpret_cast<const void*>(kernel), launch.shared_bytes,
                          launch.is_first);
  }
  static thread_local StackPools of_this_thread;
  StackPools& stacks = of_this_thread;  // the workers' own would be others
  const std::optional<Fault> first =
      run_blocks(launch.first_block, launch.blocks, launch.workers, [&](Sitting& sitting) {
        auto runner = std::make_shared<BlockRunner>(launch, sitting, stacks);
        return [=](std::int64_t block) { runner->run(block, kernel, arguments); };
      });
  if (launch.checker) {
    launch.checker->end(first ? first->block() : launch.blocks - 1, !first && launch.is_last);
  }
  if (first) throw *first;
}

bool launch(const Launch& how, void (*kernel)(const void*), const void* arguments, char* message,
            std::size_t message_bytes) {
  try {
    launch(how, kernel, arguments);
    return true;
  } catch (const Fault& fault) {
    std::snprintf(message, message_bytes, "%s", fault.what());
    return false;
  }
}

}  // namespace lanescope::simt

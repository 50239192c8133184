#include "debug/ptx/history.h"

#include <utility>

namespace lanescope::ptx {

void History::begin_launch(std::shared_ptr<const Program> program) {
  ++launch_;
  program_ = std::move(program);
}

void History::note_host_write(const void* to, const void* from, std::size_t bytes) {
  host_writes_.push_back(
      {clock_++, static_cast<const std::byte*>(to), static_cast<const std::byte*>(from), bytes});
}

void History::keep(std::int64_t block, Recording recording, const std::byte* shared,
                   std::size_t shared_bytes) {
  const std::lock_guard lock(mutex_);
  size_ += recording.size();
  runs_.push_back({launch_, block, program_, std::move(recording), shared, shared_bytes});
  for (; size_ > Recording::most_results && runs_.size() > 1; runs_.pop_front()) {
    size_ -= runs_.front().recording.size();
    ++forgotten_;
  }
}

}  // namespace lanescope::ptx

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "debug/ptx/program.h"
#include "debug/ptx/recording.h"

namespace lanescope::ptx {

/// What was done to the device's memory, in the order in which it was: by the blocks of launches,
/// instruction by instruction, and by the host. A backward slice goes back over it.
class History {
 public:
  /// What a block did.
  struct Run {
    std::int64_t launch = 0, block = 0;
    std::shared_ptr<const Program> program;
    Recording recording;
    const std::byte* shared = nullptr;  ///< its shared memory
    std::size_t shared_bytes = 0;

    bool holds(const std::byte* at) const { return at >= shared && at < shared + shared_bytes; }
  };
  /// Bytes that the host wrote, or had the device copy.
  struct HostWrite {
    std::uint64_t when;
    const std::byte *to, *from;  ///< nullptr: of what is no memory
    std::size_t bytes;
  };

  /// The launches that follow are of this one, counted from 1.
  void begin_launch(std::shared_ptr<const Program> program);
  std::int64_t launch() const { return launch_; }
  /// Counts what is done.
  std::atomic<std::uint64_t>& clock() { return clock_; }
  void note_host_write(const void* to, const void* from, std::size_t bytes);
  /// Keeps what a block of the launch did. Where that is more than there is memory for, what was
  /// done first is forgotten.
  void keep(std::int64_t block, Recording recording, const std::byte* shared,
            std::size_t shared_bytes);

  const std::deque<Run>& runs() const { return runs_; }
  const std::vector<HostWrite>& host_writes() const { return host_writes_; }
  /// Blocks that were forgotten.
  std::int64_t forgotten() const { return forgotten_; }

 private:
  std::mutex mutex_;
  std::atomic<std::uint64_t> clock_{1};
  std::int64_t launch_ = 0, forgotten_ = 0;
  std::size_t size_ = 0;
  std::shared_ptr<const Program> program_;
  std::deque<Run> runs_;
  std::vector<HostWrite> host_writes_;
};

}  // namespace lanescope::ptx

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "debug/simt/launch.h"

namespace lanescope::simt {

class Sitting;

/// A kernel broke a rule of the machine: lanes that do not meet, a lane that exited too early, a
/// misaligned address. The text names the lanes and the source lines.
class Fault : public std::runtime_error {
 public:
  Fault(std::int64_t block, const std::string& text) : std::runtime_error(text), block_(block) {}
  std::int64_t block() const { return block_; }

 private:
  std::int64_t block_;
};

/// Runs blocks `begin` to `end` − 1 on `workers` OS threads (0: one per core), in their order: each
/// thread calls `sit_down` once, and what that returns once per block. Returns the Fault of the
/// lowest block that throws one.
std::optional<Fault> run_blocks(
    std::int64_t begin, std::int64_t end, int workers,
    const std::function<std::function<void(std::int64_t block)>(Sitting&)>& sit_down);

}  // namespace lanescope::simt

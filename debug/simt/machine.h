#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "debug/simt/numerics.h"

namespace lanescope::simt {

class Checker;
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

/// The grid, and how the machine runs it.
struct Launch {
  std::int64_t blocks = 1;
  int threads = 32;              ///< of a block, a multiple of 32
  std::size_t shared_bytes = 0;  ///< of a block; starts filled with a poison pattern
  int workers = 0;               ///< OS threads, 0: one per core
  std::uint64_t schedule = 0;    ///< 0: lanes run in their order; else a seed of another order
  Checker* checker = nullptr;    ///< memory checker, for kernels compiled for it
  TensorCoreRule tensor_core = hopper_rule;
  // Of several launches one after the other on the same buffers.
  bool is_first = true;
  bool is_last = true;
};

/// Runs `kernel(arguments)` once per thread of the grid: a block on one OS thread, its lanes as
/// fibers, blocks in parallel. Throws the Fault of the lowest faulty block.
void launch(const Launch& launch, void (*kernel)(const void* arguments), const void* arguments);

/// Runs blocks 0 to `blocks` − 1 on `workers` OS threads (0: one per core), in their order: each
/// thread calls `sit_down` once, and what that returns once per block. Returns the Fault of the
/// lowest block that throws one.
std::optional<Fault> run_blocks(
    std::int64_t blocks, int workers,
    const std::function<std::function<void(std::int64_t block)>(Sitting&)>& sit_down);

}  // namespace lanescope::simt

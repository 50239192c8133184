#pragma once

#include <cstddef>
#include <cstdint>

#include "debug/simt/numerics.h"

// What a module needs of the machine: few headers, for it is compiled once per gate, type and tile.

namespace lanescope::simt {

class Checker;

/// The grid, and how the machine runs it.
struct Launch {
  std::int64_t blocks = 1;
  int threads = 32;              ///< of a block, a multiple of 32
  std::size_t shared_bytes = 0;  ///< of a block; starts filled with a poison pattern
  int workers = 0;               ///< OS threads, 0: one per core
  std::uint64_t schedule = 0;    ///< 0: lanes run in their order; else a seed of another order
  Checker* checker = nullptr;    ///< memory checker, for kernels compiled for it
  TensorCoreRule tensor_core = hopper_rule;
  /// Names the element of shared memory at a byte: its tile, row and column; may be null.
  bool (*shared_element)(std::int64_t offset, const char** tile, int* row, int* col) = nullptr;
  // Of several launches one after the other on the same buffers.
  bool is_first = true;
  bool is_last = true;
  std::int64_t first_block = 0;  ///< blocks before it are not run
};

/// Runs `kernel(arguments)` once per thread of the grid: a block on one OS thread, its lanes as
/// fibers, blocks in parallel. Throws the Fault (debug/simt/machine.h) of the lowest faulty block.
void launch(const Launch& launch, void (*kernel)(const void* arguments), const void* arguments);
/// The same, but writes what the Fault says to `message` and returns false.
bool launch(const Launch& how, void (*kernel)(const void* arguments), const void* arguments,
            char* message, std::size_t message_bytes);

}  // namespace lanescope::simt

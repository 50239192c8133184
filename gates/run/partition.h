#pragma once

#include <cstdint>
#include <optional>

#include "gates/module/module.h"
#include "reference/problem.h"

namespace lanescope {

/// How the problem is cut into the blocks of a kernel in two passes (kernels/parts/row_tile.h).
struct Partition {
  std::int64_t splits = 1;          ///< equal ranges of K/V tiles, each with blocks of its own
  std::int64_t heads_per_tile = 1;  ///< query heads of a kv head whose rows share the tiles
};

/// The partition of a run of `module`; depends on nothing but its arguments. All query heads of a
/// kv head share the tiles where one head's queries do not fill one. Where `splits` is not given,
/// there are as many as make four blocks for each of 132 multiprocessors, of at least two K/V tiles
/// each. Throws UsageError where `splits` is given and the kernel does not split the keys, or it is
/// out of range.
Partition partition_of(const Module& module, const Problem& problem,
                       const std::optional<std::int64_t>& splits);

}  // namespace lanescope

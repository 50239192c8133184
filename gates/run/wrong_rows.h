#pragma once

#include <cstdint>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/judge/diff.h"

namespace lanescope {

/// Rows of the outputs that are wrong, counted over batches and heads.
struct WrongRows {
  std::vector<std::int64_t> rows;
  bool log_sums = true;  ///< their log-sum-exps are right
};

/// Of a kernel that shows its outputs alone: of what `report`, a diff of `dump`, found.
WrongRows wrong_rows(const Dump& dump, const DiffReport& report);

}  // namespace lanescope

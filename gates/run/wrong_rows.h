#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/judge/diff.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Rows of the outputs that are wrong, counted over batches and heads.
struct WrongRows {
  std::vector<std::int64_t> rows;
  bool log_sums = true;      ///< their log-sum-exps are right
  bool any_log_sum = false;  ///< one of those is wrong
};

/// A run on the SIMT machine whose outputs are wrong, ready to be done once more.
struct WrongRun {
  PreparedRun run;
  Dump dump;
  WrongRows wrong;
};

/// Of a kernel that shows its outputs alone and runs as PTX; nothing where it does not, breaks off,
/// is right there, or has more products of Q and K. Once more may take ten times as long. Throws as
/// prepare and launch do.
std::optional<WrongRun> run_wrong(RunOptions options, std::int64_t most_products);

}  // namespace lanescope

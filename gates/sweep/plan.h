#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gates/sweep/draw.h"

namespace lanescope {

/// What the command line says of a sweep.
struct SweepOptions {
  std::string kernel;              ///< a name, "all", or the path of a module (.so)
  std::vector<std::string> gates;  ///< none: fused
  std::string specimen;
  std::string over = usual_space;
  std::int64_t runs = 500;
  std::uint64_t seed = 0;
  std::string backend = "auto";  ///< auto, sim, cuda, both
  std::string shard;             ///< "2/8": the second of eight; empty: all
  int checked_percent = 5;
  std::string output;  ///< the results file; empty: none is kept
  std::optional<double> minutes;
  std::optional<std::int64_t> failures;
  std::optional<double> timeout_seconds;
  int workers = 0;  ///< processes; 0: as many as there are cores
};

/// A sweep: which cells, and of which build.
struct SweepPlan {
  DrawPlan draw;
  /// 16 hex digits, of all that says which cell an index is: the same options, the same cells.
  std::string id;
  /// 16 hex digits, of the program and the sources of the kernels: what results may be put
  /// together.
  std::string build;
  std::vector<std::int64_t> indices;  ///< of the cells of this shard, rising
};

/// Throws UsageError on what there is not, EnvironmentError where the backend is not there.
SweepPlan plan_sweep(const SweepOptions& options);

/// Builds the modules of these cells, at once.
void build_modules_of(const std::vector<Cell>& cells);

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/text/text.h"
#include "gates/measure/device_floor.h"
#include "gates/run/run_options.h"

namespace lanescope {

struct BenchOptions {
  RunOptions run;                    ///< without preset and shape
  std::vector<std::string> presets;  ///< none: mission
  std::vector<std::string> shapes;   ///< each is put over each preset; none: as they are
  int repeats = 30;                  ///< samples
};

/// Microseconds of one launch.
struct TimeSummary {
  double median = 0, least = 0, p90 = 0;
};
/// p90: the least sample that nine in ten do not pass. `samples` is not empty.
TimeSummary summarise(std::span<const float> samples);

/// What one module came to on one problem.
struct BenchResult {
  std::string module;
  std::string tile;  ///< "64x64"
  Problem problem;
  ElementType dtype = ElementType::f16;
  std::string input;
  std::uint64_t seed = 0;
  Products products = Products::tensor_core;
  int splits = 1;
  std::string device, arch;

  std::int64_t row_tiles_judged = 0, row_tiles = 0;
  std::string fault;         ///< why it is not timed; empty: it is right, and timed
  std::string diff_command;  ///< that says more of what is wrong

  int launches = 0, samples = 0;
  TimeSummary time;
  std::optional<Work> work;  ///< of a whole forward pass: of gate `fused`
  std::int64_t l2_bytes = 0;
  std::optional<DeviceRates> rates;

  bool is_right() const { return fault.empty(); }
  /// Whether Q, K, V and O fit into L2, so that all launches but the first find them there.
  bool in_l2() const { return work && work->bytes <= static_cast<double>(l2_bytes); }
};

struct BenchReport {
  std::string kernel, gate;
  std::vector<BenchResult> results;  ///< by problem, then by tile
  std::vector<std::string> warnings;

  bool all_right() const;
};

/// Row tiles to judge, `most` or fewer of `count`: the first, the last, and some between, evenly
/// spread, in rising order.
std::vector<std::int64_t> spread(std::int64_t count, std::int64_t most);

/// Whether two runs of a module on the same inputs left the same tensors, byte for byte: a NaN is
/// the same only with the same bits, and zeros of two signs differ.
bool left_same_bits(const Dump& a, const Dump& b);

/// Runs every tile of a kernel (or the one that is given) on every problem: judges a spread of its
/// row tiles against the reference, and if they are right, times it. Modules are the untraced cuda
/// ones. What the timed launches leave must be the bits of the run that was judged. Throws Error.
BenchReport bench(const BenchOptions& options);

/// Judges and times one module on one problem. `inputs`: of the module before, on the same problem,
/// or empty; then this one's. Throws Error.
BenchResult bench_one(const RunOptions& options, int repeats, Inputs& inputs,
                      std::vector<std::string>& warnings);

std::string bench_text(const BenchReport& report, const Style& style);
std::string bench_json(const BenchReport& report);

}  // namespace lanescope

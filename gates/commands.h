#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "debug/error.h"
#include "debug/show.h"
#include "debug/text.h"
#include "gates/bench.h"
#include "gates/resources.h"
#include "gates/run_options.h"

namespace lanescope {

/// How a command talks.
struct Output {
  bool json = false;
  Style style;
};

struct DiffOptions {
  std::vector<std::string> what;  ///< KERNEL GATE, one dump, or two dumps
  RunOptions run;
  std::string output;                 ///< where to keep the dump, empty: nowhere
  std::vector<std::string> for_runs;  ///< options given that say how to run: not for dumps
};

struct ReportOptions {
  std::vector<std::string> dumps;  ///< one, or two to compare
  std::string output;              ///< the page
  std::string block, tile;         ///< "3" or "0..3"; empty: as many as may be
  int threads = 0;
  bool stale_ok = false;
};

struct WatchOptions {
  RunOptions run;
  std::vector<std::string> arguments;  ///< of the `diff --format json` that is run each time
};

// The commands: results go to stdout, everything else to stderr through spdlog. They throw Error.
ExitCode list_command(bool causes, const Output& output);
ExitCode list_maps_command(const std::string& backend, const Output& output);
ExitCode run_command(const RunOptions& options, const std::string& path, const Output& output);
ExitCode diff_command(DiffOptions options, const Output& output);
ExitCode check_command(const RunOptions& options, const Output& output);
ExitCode locate_command(const RunOptions& options, const Output& output);
/// Runs `diff` now and whenever a source has been saved, and says what changed; until Ctrl-C.
ExitCode watch_command(const WatchOptions& options, const Output& output);
ExitCode calibrate_command(const std::string& backend, const std::string& arch,
                           const Output& output);
ExitCode resources_command(const ResourceOptions& options, const Output& output);
ExitCode bench_command(const BenchOptions& options, const Output& output);
ExitCode show_command(const std::string& path, const ShowOptions& options, const Output& output);
ExitCode report_command(const ReportOptions& options, const Output& output);

/// A dump of a binary that is not built from the sources at hand says nothing about them: throws
/// MismatchError.
void check_fresh(const Dump& dump, const std::string& path);

}  // namespace lanescope

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

// The commands: results go to stdout, everything else to stderr through spdlog. They throw Error.
ExitCode list_command(bool causes, const Output& output);
ExitCode list_maps_command(const std::string& backend, const Output& output);
ExitCode run_command(const RunOptions& options, const std::string& path, const Output& output);
ExitCode diff_command(DiffOptions options, const Output& output);
ExitCode check_command(const RunOptions& options, const Output& output);
ExitCode locate_command(const RunOptions& options, const Output& output);
ExitCode calibrate_command(const std::string& backend, const std::string& arch,
                           const Output& output);
ExitCode resources_command(const ResourceOptions& options, const Output& output);
ExitCode bench_command(const BenchOptions& options, const Output& output);
ExitCode show_command(const std::string& path, const ShowOptions& options, const Output& output);

}  // namespace lanescope

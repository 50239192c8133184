#pragma once

#include <string>

#include "gates/bench.h"
#include "gates/run_options.h"

namespace CLI {
class App;
}

namespace lanescope {

/// What is wrong with the path of a dump or of a page that is to be written, or nothing: it ends in
/// .safetensors or .html, in a folder that is there.
std::string check_dump_path(const std::string& text);
std::string check_page_path(const std::string& text);

/// What every command takes that runs a gate: how `run` is to be done.
void add_run_options(CLI::App& command, RunOptions& run);
/// What `bench` takes: a kernel, of the above what says what to compute, and how often.
void add_bench_options(CLI::App& command, BenchOptions& bench);

}  // namespace lanescope

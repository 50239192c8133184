#pragma once

#include <string>

#include "gates/commands/options.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// What is wrong with the path of a dump or of a page that is to be written, or nothing: it ends in
/// .safetensors or .html, in a folder that is there.
std::string check_dump_path(const std::string& text);
std::string check_page_path(const std::string& text);

std::vector<std::string> gate_names();
std::vector<std::string> preset_names();

/// What is run: a kernel of the build, or a module by its path; a gate of it.
void add_kernel(Options& options, std::string& kernel);
Option add_gate(Options& options, std::string& gate,
                const char* about = "a gate of the kernel: see `lanescope list`");

/// Where nothing is wrong with a specimen, which shape shows it, on stderr below the verdict.
void say_what_shows(const std::string& kernel);

/// --threads: of this machine, where a command computes.
void add_threads(Options& options, int& threads);
/// What a run and a benchmark take alike: which problem, in which types and tiles.
void add_problem_options(Options& options, RunOptions& run);
/// How the SIMT machine runs: the name of its rounding rules, the seed of its schedule.
void add_machine_options(Options& options, std::string& arch, std::uint64_t& schedule);
/// What every command takes that runs a gate: how `run` is to be done.
void add_run_options(Options& options, RunOptions& run);

}  // namespace lanescope

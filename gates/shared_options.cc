#include "gates/shared_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <system_error>

namespace lanescope {
namespace {

// What is wrong with an option's text, or nothing.

std::string check_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  return "'" + text + "' is no whole number from 0 to 2^64 - 1";
}

/// Before the run, which may take long: a dump under another name could not be given to `diff`, and
/// one in a folder that is not there could not be written.
std::string check_path(const std::string& text, const std::string& ending) {
  if (!text.ends_with(ending)) return "'" + text + "' does not end in " + ending;
  const std::filesystem::path folder = std::filesystem::path(text).parent_path();
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return {};
  return "there is no folder " + folder.string();
}

/// What a run and a benchmark take alike.
void add_problem_options(CLI::App& command, RunOptions& run) {
  command.add_option("--dtype", run.dtype, "f16, bf16 or e4m3 [f16, or as the input file]");
  command.add_flag("--causal", run.causal, "query i sees the keys up to i + skv - s");
  command.add_option("--tile-shape", run.tile_shape,
                     "Br x Bc, e.g. 64x32 [the kernel's first; bench: all of them]");
  command.add_option("--input", run.input,
                     "random, counting, large, equal, rising, or a .safetensors file with q, k, v");
  command.add_option("--layout", run.layout, "of the input file: bhsd or bshd [bhsd]");
  command.add_option("--splits", run.splits,
                     "kernels that split the keys: ranges of them [as fill the machine]");
  command.add_option("--seed", run.seed, "of generated inputs [0]")->check(check_seed);
  command.add_option("--threads", run.threads, "of this machine [0: all]")
      ->check(CLI::Range(0, 1024));
}

}  // namespace

std::string check_dump_path(const std::string& text) { return check_path(text, ".safetensors"); }
std::string check_page_path(const std::string& text) { return check_path(text, ".html"); }

void add_run_options(CLI::App& command, RunOptions& run) {
  command.add_option("--backend", run.backend, "auto (cuda where a device answers), sim or cuda");
  command.add_option("--preset", run.preset, "a shape with a name: see `lanescope list` [debug]");
  command.add_option("--shape", run.shape,
                     "b=1,h=8,hkv=2,s=512,skv=1024,d=64: sides put over the preset's");
  add_problem_options(command, run);
  command.add_option("--specimen", run.specimen, "plant a known bug: see `lanescope list`");
  command.add_option(
      "--where", run.where,
      "trace only block=0,tile=0..3 (ends included; printed text also warp=, lane=)");
  command.add_flag("--untraced", run.untraced, "the module built without tracing");
  command.add_option("--arch", run.arch, "sim: round like hopper or ampere [hopper]");
  command.add_option("--schedule", run.schedule, "sim: the seed of another order of the lanes")
      ->check(check_seed);
  command
      .add_option("--timeout", run.timeout_seconds,
                  "seconds that a kernel may take to end a block (cuda: to end) [30]")
      ->check(CLI::Range(0.1, 1e6));
}

void add_bench_options(CLI::App& command, BenchOptions& bench) {
  command.add_option("kernel", bench.run.kernel, "a kernel, or the path of a module")->required();
  command.add_option("gate", bench.run.gate, "a gate of the kernel [fused]");
  command.add_option("--backend", bench.run.backend, "cuda: there is no other to time");
  command.add_option("--preset", bench.presets, "shapes with a name [mission, or debug]")
      ->allow_extra_args(false);
  command
      .add_option("--shape", bench.shapes,
                  "b=1,h=8,hkv=2,s=512,skv=1024,d=64: sides put over the preset's; may be repeated")
      ->allow_extra_args(false);
  add_problem_options(command, bench.run);
  command.add_option("--repeats", bench.repeats, "samples, each of about 2 ms of launches [30]")
      ->check(CLI::Range(1, ModuleTiming::most_samples));
}

}  // namespace lanescope

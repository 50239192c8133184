#include "gates/commands/shared_options.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "debug/report/suggested_command.h"
#include "gates/build/module_catalogue.h"
#include "gates/commands/log.h"
#include "gates/run/presets.h"
#include "reference/inputs.h"

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

/// Without their kernels.
std::vector<std::string> specimen_names() {
  std::vector<std::string> names;
  for (const DeclaredSpecimen& specimen : declared_specimens()) {
    names.emplace_back(specimen.kernel.substr(specimen.kernel.find('+') + 1));
  }
  return names;
}

}  // namespace

std::string check_dump_path(const std::string& text) { return check_path(text, ".safetensors"); }
std::string check_page_path(const std::string& text) { return check_path(text, ".html"); }

std::vector<std::string> gate_names() {
  std::vector<std::string> names;
  for (const Gate gate : all_gates) names.emplace_back(name_of(gate));
  return names;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

void add_kernel(Options& options, std::string& kernel) {
  options.add("kernel", kernel, "a kernel, or the path of a module (.so, .ptx)")
      .required()
      .suggest(declared_kernels(), ".so");
}

Option add_gate(Options& options, std::string& gate, const char* about) {
  return options.add("gate", gate, about).suggest(gate_names());
}

void say_what_shows(const std::string& kernel) {
  const std::string command = shown_by(kernel);
  if (command.empty()) return;
  std::fflush(stdout);
  log::info("the bug that is planted did not show; it does in " + program_name() + " " + command);
}

void add_threads(Options& options, int& threads) {
  options.add("--threads", threads, "of this machine [0: all]").between(0, 1024);
}

void add_problem_options(Options& options, RunOptions& run) {
  options.add("--dtype", run.dtype, "f16, bf16, e4m3 or f32 [f16, or as the input file]")
      .suggest({"f16", "bf16", "e4m3", "f32"});
  options.add_flag("--causal", run.causal, "query i sees the keys up to i + skv - s");
  options.add("--tile-shape", run.tile_shape,
              "Br x Bc, e.g. 64x32 [the kernel's first; bench: all of them]");
  options
      .add("--input", run.input,
           "random, counting, large, equal, rising, steep, lone, low, or a .safetensors file with "
           "q, k, "
           "v")
      .suggest(input_kinds(), ".safetensors");
  options.add("--layout", run.layout, "of the input file: bhsd or bshd [bhsd]")
      .suggest({"bhsd", "bshd"});
  options.add("--splits", run.splits,
              "kernels that split the keys: ranges of them [as fill the machine]");
  options.add("--seed", run.seed, "of generated inputs [0]").check(check_seed);
  add_threads(options, run.threads);
}

void add_machine_options(Options& options, std::string& arch, std::uint64_t& schedule) {
  options.add("--arch", arch, "sim: round like hopper or ampere [hopper]")
      .suggest({"hopper", "ampere"});
  options.add("--schedule", schedule, "sim: the seed of another order of the lanes")
      .check(check_seed);
}

void add_run_options(Options& options, RunOptions& run) {
  options.add("--backend", run.backend, "auto (cuda where a device answers), sim or cuda")
      .suggest({"auto", "sim", "cuda"});
  options.add("--preset", run.preset, "a shape with a name: see `lanescope list` [debug]")
      .suggest(preset_names());
  options.add("--shape", run.shape,
              "b=1,h=8,hkv=2,s=512,skv=1024,d=64: sides put over the preset's");
  add_problem_options(options, run);
  options.add("--specimen", run.specimen, "plant a known bug: see `lanescope list`")
      .suggest(specimen_names());
  options.add("--where", run.where,
              "trace only block=0,tile=0..3 (ends included; printed text also warp=, lane=)");
  options.add_flag("--untraced", run.untraced, "the module built without tracing");
  add_machine_options(options, run.arch, run.schedule);
  options
      .add("--timeout", run.timeout_seconds,
           "seconds that a kernel may take to end a block (cuda: to end) [30; locate: 10]")
      .between(0.1, 1e6);
}

}  // namespace lanescope

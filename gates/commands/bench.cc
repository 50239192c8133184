#include "gates/measure/bench.h"

#include <cstdio>
#include <memory>

#include "gates/commands/command.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"
#include "gates/sweep/bench_cells.h"

namespace lanescope {
namespace {

/// Cells that are drawn, instead of presets and shapes.
struct BenchCells {
  std::string over, peer;
  std::optional<std::int64_t> runs;
  std::string output;  ///< the results file
};

ExitCode bench_drawn(const BenchOptions& options, const BenchCells& cells, const Output& output) {
  if (!options.presets.empty() || !options.shapes.empty() || !options.run.dtype.empty() ||
      !options.run.tile_shape.empty() || options.run.causal || options.run.input != "random") {
    throw UsageError(
        "bench --over: it says what cells are drawn from; leave out --preset, --shape, "
        "--dtype, --tile-shape, --causal and --input");
  }
  SweepOptions sweep;
  sweep.kernel = options.run.kernel;
  sweep.gates = {options.run.gate};
  if (!cells.over.empty()) sweep.over = cells.over;
  sweep.runs = cells.runs.value_or(sweep.runs);
  sweep.seed = options.run.seed;
  sweep.backend = "cuda";
  sweep.checked_percent = 0;
  sweep.output = cells.output;
  const SweepReport report = bench_cells(sweep, plan_sweep(sweep), options.repeats, cells.peer);
  const std::string text =
      output.json ? sweep_json(report) + "\n" : sweep_text(report, output.style);
  std::fputs(text.c_str(), stdout);
  return report.holds() ? ExitCode::ok : ExitCode::diverged;
}

ExitCode run_bench(const BenchOptions& options, const BenchCells& cells, const Output& output) {
  if (!cells.over.empty() || cells.runs) return bench_drawn(options, cells, output);
  if (!cells.peer.empty() || !cells.output.empty()) {
    throw UsageError("bench: --peer and -o are of cells that are drawn: give --over or --runs");
  }
  const BenchReport report = bench(options);
  for (const std::string& warning : report.warnings) log::warn(warning);
  const std::string text =
      output.json ? bench_json(report) + "\n" : bench_text(report, output.style);
  std::fputs(text.c_str(), stdout);
  return report.all_right() ? ExitCode::ok : ExitCode::diverged;
}

}  // namespace

Action bench_command(Options& options) {
  const auto bench = std::make_shared<BenchOptions>();
  bench->run.gate = name_of(Gate::fused);
  add_kernel(options, bench->run.kernel);
  add_gate(options, bench->run.gate, "a gate of the kernel [fused]");
  options.add("--backend", bench->run.backend, "cuda: there is no other to time").suggest({"cuda"});
  options.add("--preset", bench->presets, "shapes with a name [mission, or debug]")
      .one_each_time()
      .suggest(preset_names());
  options
      .add("--shape", bench->shapes,
           "b=1,h=8,hkv=2,s=512,skv=1024,d=64: sides put over the preset's; may be repeated")
      .one_each_time();
  add_problem_options(options, bench->run);
  options.add("--repeats", bench->repeats, "samples, each of about 2 ms of launches [30]")
      .between(1, ModuleTiming::most_samples);
  const auto cells = std::make_shared<BenchCells>();
  options.add("--over", cells->over, "cells drawn from it instead, as `sweep` draws them");
  options.add("--runs", cells->runs, "how many of those [500]");
  options.add("-o,--output", cells->output, "of those a line of JSON each: x.jsonl")
      .suggest({}, ".jsonl");
  options.add("--peer", cells->peer, "of those: an untraced module (.so) to compare with")
      .suggest({}, ".so");
  return [bench, cells](const Output& output) { return run_bench(*bench, *cells, output); };
}

}  // namespace lanescope

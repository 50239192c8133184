#include "gates/measure/bench.h"

#include <cstdio>
#include <memory>

#include "gates/commands/command.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"

namespace lanescope {
namespace {

ExitCode run_bench(const BenchOptions& options, const Output& output) {
  const BenchReport report = bench(options);
  for (const std::string& warning : report.warnings) log::warn(warning);
  const std::string text =
      output.json ? bench_json(report) + "\n" : bench_text(report, output.style);
  std::fputs(text.c_str(), stdout);
  return report.all_right() ? ExitCode::ok : ExitCode::diverged;
}

Action declare_bench(Options& options) {
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
  return [bench](const Output& output) { return run_bench(*bench, output); };
}

}  // namespace

Command bench_command() { return {"judge a kernel, then time it on the GPU", declare_bench}; }

}  // namespace lanescope

#include <spdlog/spdlog.h>

#include <cstdio>

#include "gates/bench.h"
#include "gates/commands.h"

namespace lanescope {

ExitCode bench_command(const BenchOptions& options, const Output& output) {
  const BenchReport report = bench(options);
  for (const std::string& warning : report.warnings) spdlog::warn("{}", warning);
  const std::string text =
      output.json ? bench_json(report) + "\n" : bench_text(report, output.style);
  std::fputs(text.c_str(), stdout);
  return report.all_right() ? ExitCode::ok : ExitCode::diverged;
}

}  // namespace lanescope

#include <spdlog/spdlog.h>

#include <cstdio>

#include "gates/check.h"
#include "gates/commands.h"

namespace lanescope {

ExitCode check_command(const RunOptions& options, const Output& output) {
  const CheckReport report = check_kernel(options);
  for (const std::string& warning : report.warnings) spdlog::warn("{}", warning);
  const std::string text =
      output.json ? check_json(report) + "\n" : check_text(report, output.style);
  std::fputs(text.c_str(), stdout);
  return report.clean() ? ExitCode::ok : ExitCode::diverged;
}

}  // namespace lanescope

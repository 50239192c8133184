#include "gates/run/check.h"

#include <cstdio>
#include <memory>

#include "gates/commands/command.h"
#include "gates/commands/log.h"
#include "gates/commands/shared_options.h"

namespace lanescope {
namespace {

ExitCode run_check(const RunOptions& options, const Output& output) {
  const CheckReport report = check_kernel(options);
  for (const std::string& warning : report.warnings) log::warn(warning);
  const std::string text =
      output.json ? check_json(report) + "\n" : check_text(report, output.style);
  std::fputs(text.c_str(), stdout);
  if (report.clean()) say_what_shows(report.kernel);
  return report.clean() ? ExitCode::ok : ExitCode::diverged;
}

}  // namespace

Action check_command(Options& options) {
  const auto run = std::make_shared<RunOptions>();
  add_kernel(options, run->kernel);
  add_gate(options, run->gate).required();
  add_run_options(options, *run);
  return [run](const Output& output) { return run_check(*run, output); };
}

}  // namespace lanescope

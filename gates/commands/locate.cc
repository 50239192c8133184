#include "gates/run/locate.h"

#include <cstdio>
#include <memory>

#include "gates/commands/command.h"
#include "gates/commands/shared_options.h"

namespace lanescope {
namespace {

ExitCode run_locate(const RunOptions& options, const Output& output) {
  if (options.untraced)
    throw UsageError("locate: it needs the traced values; leave out --untraced");
  const Location location = locate(options);
  const std::string text =
      output.json ? location_json(location) + "\n" : location_text(location, output.style);
  std::fputs(text.c_str(), stdout);
  return location.diagnosis ? ExitCode::diverged : ExitCode::ok;
}

}  // namespace

Action locate_command(Options& options) {
  const auto run = std::make_shared<RunOptions>();
  add_kernel(options, run->kernel);
  add_run_options(options, *run);
  options.add_flag(
      "--strict", run->strict,
      "another recurrence than the reference's is a fault, though outputs are right, and so are "
      "indices of 32 bits");
  return [run](const Output& output) { return run_locate(*run, output); };
}

}  // namespace lanescope

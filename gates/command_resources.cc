#include <cstdio>

#include "gates/commands.h"
#include "gates/resources.h"

namespace lanescope {

ExitCode resources_command(const ResourceOptions& options, const Output& output) {
  const ResourceReport report = measure_resources(options);
  const std::string text = output.json ? resources_json(report) + "\n" : resources_text(report);
  std::fputs(text.c_str(), stdout);
  const bool holds = !report.recorded.empty() || report.within();
  return holds ? ExitCode::ok : ExitCode::diverged;
}

}  // namespace lanescope

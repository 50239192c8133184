#include <cstdio>

#include "gates/commands.h"
#include "gates/locate.h"

namespace lanescope {

ExitCode locate_command(const RunOptions& options, const Output& output) {
  if (options.untraced)
    throw UsageError("locate: it needs the traced values; leave out --untraced");
  const Location location = locate(options);
  const std::string text =
      output.json ? location_json(location) + "\n" : location_text(location, output.style);
  std::fputs(text.c_str(), stdout);
  return location.diagnosis ? ExitCode::diverged : ExitCode::ok;
}

}  // namespace lanescope

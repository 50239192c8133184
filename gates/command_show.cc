#include <cstdio>

#include "gates/commands.h"

namespace lanescope {

ExitCode show_command(const std::string& path, const ShowOptions& options, const Output& output) {
  const Dump dump = read_dump(path);
  const std::string text =
      output.json ? show_json(dump, options) + "\n" : show_text(dump, options, output.style);
  std::fputs(text.c_str(), stdout);
  return ExitCode::ok;
}

}  // namespace lanescope

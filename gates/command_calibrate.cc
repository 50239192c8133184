#include <cstdio>

#include "gates/calibrate.h"
#include "gates/commands.h"
#include "gates/module_build.h"

namespace lanescope {

ExitCode calibrate_command(const std::string& backend, const std::string& arch,
                           const Output& output) {
  const std::string chosen = choose_backend(backend);
  if (!arch.empty() && chosen != "sim") {
    throw UsageError("--arch chooses the rounding rules of sim: add --backend sim");
  }
  const Calibration calibration =
      calibrate(chosen, arch.empty() ? simt::hopper : parse_rules(arch));
  const std::string text =
      output.json ? calibration_json(calibration) + "\n" : calibration_text(calibration);
  std::fputs(text.c_str(), stdout);
  return calibration.rules() ? ExitCode::ok : ExitCode::diverged;
}

}  // namespace lanescope

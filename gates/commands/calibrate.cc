#include "gates/measure/calibrate.h"

#include <cstdio>
#include <memory>
#include <string>

#include "gates/build/module_build.h"
#include "gates/commands/command.h"
#include "gates/run/run_options.h"

namespace lanescope {
namespace {

struct CalibrateOptions {
  std::string backend = "cuda", arch;
};

ExitCode run_calibrate(const CalibrateOptions& options, const Output& output) {
  const std::string backend = choose_backend(options.backend);
  if (!options.arch.empty() && backend != "sim") {
    throw UsageError("--arch chooses the rounding rules of sim: add --backend sim");
  }
  const Calibration calibration =
      calibrate(backend, options.arch.empty() ? simt::hopper : parse_rules(options.arch));
  const std::string text =
      output.json ? calibration_json(calibration) + "\n" : calibration_text(calibration);
  std::fputs(text.c_str(), stdout);
  return calibration.rules() ? ExitCode::ok : ExitCode::diverged;
}

}  // namespace

Action calibrate_command(Options& options) {
  const auto given = std::make_shared<CalibrateOptions>();
  options.add("--backend", given->backend, "cuda or sim [cuda]").suggest({"cuda", "sim"});
  options.add("--arch", given->arch, "sim: round like hopper or ampere [hopper]")
      .suggest({"hopper", "ampere"});
  return [given](const Output& output) { return run_calibrate(*given, output); };
}

}  // namespace lanescope

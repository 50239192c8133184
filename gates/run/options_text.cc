#include "gates/run/options_text.h"

#include "debug/report/suggested_command.h"
#include "debug/text/text.h"
#include "gates/run/locate_plan.h"

namespace lanescope {

std::string options_text(const RunOptions& options, const Problem& problem) {
  std::string text = shell_word(options.kernel) + " " + options.gate;
  const auto add = [&](const char* name, const std::string& value, const std::string& usual) {
    if (value != usual) text += std::string(" ") + name + " " + shell_word(value);
  };
  add("--specimen", options.specimen, "");
  add("--backend", options.backend, "auto");
  if (!options.input.ends_with(".safetensors")) text += " --shape " + shape_option(problem);
  if (options.causal) text += " --causal";
  add("--input", options.input, "random");
  add("--layout", options.layout, "bhsd");
  add("--dtype", options.dtype, "");
  add("--tile-shape", options.tile_shape, "");
  add("--splits", options.splits ? std::to_string(*options.splits) : "", "");
  add("--seed", std::to_string(options.seed), "0");
  add("--schedule", std::to_string(options.schedule), "0");
  add("--arch", options.arch, "");
  add("--where", options.where, "");
  if (options.timeout_seconds.value_or(locate_timeout_seconds) != locate_timeout_seconds) {
    add("--timeout", number_text(*options.timeout_seconds, 6), "");
  }
  return text;
}

std::string options_text(const RunOptions& options) {
  return options_text(options, parse_shape(options.preset, options.shape, options.causal));
}

}  // namespace lanescope

#include "gates/run/locate_plan.h"

#include <algorithm>

#include "debug/report/suggested_command.h"
#include "debug/text/text.h"
#include "gates/build/module_catalogue.h"
#include "gates/run/presets.h"

namespace lanescope {
namespace {

std::string length_text(std::int64_t queries, std::int64_t keys) {
  return "s=" + std::to_string(queries) + (queries == keys ? "" : ",skv=" + std::to_string(keys));
}

/// Of inputs, besides the one that every problem has.
std::vector<std::string> other_types(const RunOptions& given) {
  if (!given.dtype.empty() || given.input.ends_with(".safetensors")) return {};
  const std::string specimen = given.specimen.empty() ? "" : "+" + given.specimen;
  std::vector<std::string> types = declared_dtypes(given.kernel + specimen);
  if (!types.empty()) types.erase(types.begin());
  return types;
}

}  // namespace

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

bool is_given(const RunOptions& options) {
  return !options.shape.empty() || !options.preset.empty() || options.causal ||
         options.input != "random" || options.seed != 0;
}

std::vector<Probe> plan(const RunOptions& given, int br, int bc, bool combines) {
  std::vector<Probe> probes;
  if (is_given(given)) probes.push_back({as_given, given, true});
  const std::string d =
      "," + ("d=" + std::to_string(given.input.ends_with(".safetensors")
                                       ? 64
                                       : parse_shape(given.preset, given.shape, false).d));
  const auto add = [&](const std::string& about, const std::string& shape, bool causal,
                       const std::string& input = "random", bool checked = false) {
    RunOptions options = given;
    options.preset.clear();
    options.shape = (shape.starts_with("b=") || shape.starts_with("h=") ? "" : "b=1,h=1,") + shape +
                    (given.shape.empty() && given.preset.empty() ? ",d=64" : d);
    options.causal = causal;
    options.input = input;
    options.seed = given.seed;
    probes.push_back({about, options, checked});
  };
  const int side = std::max(br, bc);
  add("a single tile", length_text(br, bc), false);
  add("several tiles", length_text(br, 3 * bc), false);
  add("enough rows to solve a product for its operands", length_text(128, 128), false);
  add("the maximum rises in every tile", length_text(br, 3 * bc), false, "rising");
  add("a ragged tail", length_text(side + br / 2 + 4, side + bc / 2 + 5), false, "random", true);
  add("causal", length_text(side, side), true);
  add("causal, ragged, several tiles", length_text(2 * side + 1, 2 * side + 1), true, "random",
      true);
  add("causal, fewer queries than keys", length_text(br / 2 + 8, side + 32), true);
  add("causal, rows that see no key", length_text(side + 32, side), true);
  add("several heads, grouped", "b=2,h=4,hkv=2," + length_text(br, 2 * bc), false, "random", true);
  add("large scores", length_text(br, 2 * bc), false, "large");
  add("as many tiles as rings of buffers may hold", length_text(br, 6 * bc), false, "random", true);
  if (combines) {
    const auto add_splits = [&](const std::string& about, const std::string& shape, bool causal,
                                std::int64_t splits, bool checked = false) {
      add(about, shape, causal, "random", checked);
      if (!given.splits) probes.back().options.splits = splits;
    };
    add_splits("several splits", length_text(br, 6 * bc), false, 3, true);
    add_splits("more splits than tiles", length_text(br, 2 * bc), false, 4);
    add_splits("causal, splits that some rows do not see", length_text(2 * side, 2 * side + br / 2),
               true, 3);
    add_splits("heads that share tiles", "h=4,hkv=1," + length_text(3, 4 * bc), true, 2, true);
  }
  add("a padded head dimension", length_text(br, 2 * bc), false);
  probes.back().options.shape = "b=1,h=1," + length_text(br, 2 * bc) + ",d=40";
  for (const std::string& type : other_types(given)) {
    add("inputs of " + type, "b=1,h=4,hkv=2," + length_text(br, 2 * bc), false, "random", true);
    probes.back().options.dtype = type;
  }
  return probes;
}

}  // namespace lanescope

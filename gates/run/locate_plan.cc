#include "gates/run/locate_plan.h"

#include <algorithm>
#include <optional>
#include <set>

#include "debug/report/suggested_command.h"
#include "debug/text/text.h"
#include "gates/build/module_build.h"
#include "gates/build/module_catalogue.h"
#include "gates/run/presets.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::string length_text(std::int64_t queries, std::int64_t keys) {
  return "s=" + std::to_string(queries) + (queries == keys ? "" : ",skv=" + std::to_string(keys));
}

std::string kernel_of(const RunOptions& given) {
  return given.kernel + (given.specimen.empty() ? "" : "+" + given.specimen);
}

/// Of inputs, besides the one that every problem has.
std::vector<std::string> other_types(const RunOptions& given) {
  if (!given.dtype.empty() || given.input.ends_with(".safetensors")) return {};
  std::vector<std::string> types = declared_dtypes(kernel_of(given));
  if (!types.empty()) types.erase(types.begin());
  return types;
}

struct TileShape {
  int br, bc;
};

/// The fewest tiles of the kernel that have, with br x bc, every number of rows and every number of
/// keys that its tiles of d = 64 and the given type have.
std::vector<TileShape> other_tiles(const RunOptions& given, int br, int bc) {
  std::vector<TileShape> tiles;
  const std::vector<std::string> types = declared_dtypes(kernel_of(given));
  if (given.dtype.empty() && types.empty()) return tiles;
  const ElementType type = parse_dtype(given.dtype.empty() ? types.front() : given.dtype);
  std::set<int> rows = {br}, keys = {bc};
  while (given.tile_shape.empty()) {
    std::optional<TileShape> best;
    int most = 0;
    for (const ModuleName& name : declared_modules()) {
      if (name.kernel != kernel_of(given) || name.gate != Gate::fused || name.dtype != type ||
          name.head_dim != 64) {
        continue;
      }
      const int found = !rows.contains(name.br) + !keys.contains(name.bc);
      if (found <= most) continue;
      most = found;
      best = TileShape{name.br, name.bc};
    }
    if (!best) break;
    rows.insert(best->br);
    keys.insert(best->bc);
    tiles.push_back(*best);
  }
  return tiles;
}

bool has_head_dim(const RunOptions& given, int d) {
  const auto& names = declared_modules();
  return std::any_of(names.begin(), names.end(), [&](const ModuleName& name) {
    return name.kernel == kernel_of(given) && name.head_dim == d;
  });
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

std::vector<Probe> plan(const RunOptions& given, int br, int bc, bool combines, bool persistent) {
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
    options.shape = (shape.starts_with("b=")   ? ""
                     : shape.starts_with("h=") ? "b=1,"
                                               : "b=1,h=1,") +
                    shape + (given.shape.empty() && given.preset.empty() ? ",d=64" : d);
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
  add("a ragged tail", length_text(side + br / 2 + 4, side + 5), false, "random", true);
  add("causal", length_text(side, side), true);
  add("causal, ragged, several tiles", length_text(2 * side + 1, 2 * side + 1), true, "random",
      true);
  probes.back().broad = true;
  add("causal, fewer queries than keys", length_text(br / 2 + 8, side + 32), true);
  add("causal, rows that see no key", length_text(side + 32, side), true);
  probes.back().broad = true;
  add("causal, rows that see no key of a tile that others see",
      length_text(side + br + br / 2, side), true);
  add("several heads, grouped", "b=2,h=6,hkv=3," + length_text(br, 2 * bc), false, "random", true);
  probes.back().broad = true;
  add("large scores", length_text(br, 2 * bc), false, "large");
  add("more tiles than rings of buffers hold", length_text(br, 9 * bc), false, "random", true);
  if (persistent) {  // more than the 132 blocks of an H200
    add("several items per block", "h=136," + length_text(br, 3 * bc), false, "random", true);
    probes.back().large = true;
  }
  if (combines) {
    const auto add_splits = [&](const std::string& about, const std::string& shape, bool causal,
                                std::int64_t splits, bool checked = false,
                                const std::string& input = "random") {
      add(about, shape, causal, input, checked);
      if (!given.splits) probes.back().options.splits = splits;
    };
    add_splits("several splits", length_text(br, 6 * bc), false, 3, true);
    probes.back().broad = true;
    add_splits("large scores in several splits", length_text(br, 6 * bc), false, 3, false, "large");
    add_splits("more splits than tiles", length_text(br, 2 * bc), false, 4);
    add_splits("causal, splits that some rows do not see", length_text(2 * side, 2 * side + br / 2),
               true, 3);
    add_splits("heads that share tiles", "h=4,hkv=1," + length_text(3, 4 * bc), true, 2, true);
    add_splits("groups of heads that need several tiles",
               "b=2,h=8,hkv=2," + length_text(br / 4 + 1, 4 * bc), true, 2);
    add_splits("heads whose last rows share a tile", "h=2,hkv=1," + length_text(br - 3, 2 * bc),
               true, 2);
  }
  add("a padded head dimension", length_text(br, 2 * bc), false);
  probes.back().options.shape = "b=1,h=1," + length_text(br, 2 * bc) + ",d=40";
  for (const std::string& type : other_types(given)) {
    add("inputs of " + type, "b=2,h=2,hkv=1," + length_text(br, 2 * bc), false, "random", true);
    probes.back().options.dtype = type;
  }
  const bool any_width = given.shape.empty() && given.preset.empty();
  if (any_width && has_head_dim(given, 128)) {
    add("a head dimension of 128", "h=2,hkv=1," + length_text(br + br / 2, 2 * bc + 5), true);
    std::string& shape = probes.back().options.shape;
    shape.replace(shape.rfind(',') + 1, std::string::npos, "d=128");
  }
  for (const auto& [rows, keys] : other_tiles(given, br, bc)) {
    add("tiles of " + tile_text(rows, keys),
        "h=2,hkv=1," + length_text(rows + rows / 2, 3 * keys + keys / 2), true);
    probes.back().options.tile_shape = tile_text(rows, keys);
    if (combines && !given.splits) probes.back().options.splits = 2;
  }
  return probes;
}

std::vector<std::string> modules_of(const std::vector<Probe>& probes) {
  std::vector<std::string> names;
  const auto add = [&](const RunOptions& options, bool checked) {
    const ModuleName name = choose_module(
        {kernel_of(options), Gate::fused,
         options.dtype.empty() ? std::nullopt : std::optional(parse_dtype(options.dtype)),
         parse_shape(options.preset, options.shape, false).d, parse_tile(options.tile_shape),
         checked ? "sim" : choose_backend(options.backend), options.untraced, checked});
    const std::string text = name.text();
    if (std::find(names.begin(), names.end(), text) == names.end()) names.push_back(text);
  };
  for (const Probe& probe : probes) {
    try {
      add(probe.options, false);
      if (probe.checked) add(probe.options, true);
    } catch (const UsageError&) {
      continue;  // the kernel is not built for it
    }
  }
  return names;
}

std::vector<std::string> not_tried(const RunOptions& given, const std::vector<Probe>& probes,
                                   int br, int bc) {
  std::string tiles;
  for (const ModuleName& name : declared_modules()) {
    if (name.kernel != kernel_of(given) || name.gate != Gate::fused) continue;
    const std::string tile = tile_text(name.br, name.bc);
    const bool is_run = (name.br == br && name.bc == bc) ||
                        std::any_of(probes.begin(), probes.end(), [&](const Probe& probe) {
                          return probe.options.tile_shape == tile;
                        });
    if (is_run || (", " + tiles + ",").find(", " + tile + ",") != std::string::npos) continue;
    tiles += (tiles.empty() ? "" : ", ") + tile;
  }
  std::vector<std::string> left;
  if (!tiles.empty()) left.push_back("tiles of " + tiles + " (--tile-shape)");
  left.push_back("sequences of more than 9 tiles");
  return left;
}

}  // namespace lanescope

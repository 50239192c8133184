#include "gates/run/plan_modules.h"

#include <algorithm>
#include <optional>
#include <set>

#include "debug/text/text.h"
#include "gates/build/module_build.h"
#include "gates/build/module_catalogue.h"
#include "reference/error.h"

namespace lanescope {
namespace {

std::string kernel_of(const RunOptions& given) {
  return given.kernel + (given.specimen.empty() ? "" : "+" + given.specimen);
}

}  // namespace

std::vector<std::string> other_types(const RunOptions& given) {
  if (!given.dtype.empty() || given.input.ends_with(".safetensors")) return {};
  std::vector<std::string> types = declared_dtypes(kernel_of(given));
  if (!types.empty()) types.erase(types.begin());
  return types;
}

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

std::vector<int> other_head_dims(const RunOptions& given, int head_dim) {
  std::set<int> others;
  for (const ModuleName& name : declared_modules()) {
    if (name.kernel == kernel_of(given) && name.head_dim != head_dim) others.insert(name.head_dim);
  }
  return {others.begin(), others.end()};
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
  left.push_back("sequences of more than " + std::to_string(most_tiles) + " tiles");
  return left;
}

}  // namespace lanescope

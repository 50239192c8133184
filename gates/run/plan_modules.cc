#include "gates/run/plan_modules.h"

#include <algorithm>
#include <array>
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

/// The module that a probe runs, or that it runs under the memory checker; none where the kernel is
/// not built for it.
std::optional<ModuleName> module_of(const RunOptions& options, bool checked) {
  try {
    return choose_module(
        {kernel_of(options), Gate::fused,
         options.dtype.empty() ? std::nullopt : std::optional(parse_dtype(options.dtype)),
         parse_shape(options.preset, options.shape, false).d, parse_tile(options.tile_shape),
         checked ? "sim" : choose_backend(options.backend), options.untraced, checked});
  } catch (const UsageError&) {
    return {};
  }
}

/// Two of the choices that a module is built for, each pair as text: what may be wrong of the two
/// together.
std::array<std::string, 3> pairs_of(const ModuleName& name) {
  const std::string type(name_of(name.dtype)), width = "d" + std::to_string(name.head_dim),
                                               tile = tile_text(name.br, name.bc);
  return {type + " " + width, type + " " + tile, width + " " + tile};
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

std::vector<ModuleName> modules_of_pairs(const RunOptions& given,
                                         const std::vector<Probe>& probes) {
  std::set<std::string> met;
  const auto meet = [&](const ModuleName& name) {
    for (const std::string& pair : pairs_of(name)) met.insert(pair);
  };
  for (const Probe& probe : probes) {
    const std::optional<ModuleName> name = module_of(probe.options, false);
    if (name) meet(*name);
  }
  std::vector<ModuleName> modules;
  const auto gain_of = [&](const ModuleName& name) {
    const auto [type_and_width, type_and_tile, width_and_tile] = pairs_of(name);
    return 2 * !met.contains(type_and_width) + !met.contains(type_and_tile) +
           !met.contains(width_and_tile);
  };
  while (true) {
    const ModuleName* best = nullptr;
    for (const ModuleName& name : declared_modules()) {
      if (name.kernel != kernel_of(given) || name.gate != Gate::fused ||
          name.backend != choose_backend(given.backend)) {
        continue;
      }
      if (gain_of(name) > (best ? gain_of(*best) : 1)) best = &name;
    }
    if (!best) return modules;
    meet(*best);
    modules.push_back(*best);
  }
}

std::vector<std::string> modules_of(const std::vector<Probe>& probes) {
  std::vector<std::string> names;
  const auto add = [&](const RunOptions& options, bool checked) {
    const std::optional<ModuleName> name = module_of(options, checked);
    if (name && std::ranges::find(names, name->text()) == names.end()) {
      names.push_back(name->text());
    }
  };
  for (const Probe& probe : probes) {
    add(probe.options, false);
    if (probe.checked) add(probe.options, true);
  }
  return names;
}

std::vector<std::string> not_tried(const RunOptions& given, const std::vector<Probe>& probes,
                                   int br, int bc) {
  std::set<std::string> run;
  for (const Probe& probe : probes) {
    const std::optional<ModuleName> name = module_of(probe.options, false);
    if (name) run.insert(tile_text(name->br, name->bc));
  }
  std::string tiles;
  for (const ModuleName& name : declared_modules()) {
    if (name.kernel != kernel_of(given) || name.gate != Gate::fused) continue;
    const std::string tile = tile_text(name.br, name.bc);
    const bool is_run = (name.br == br && name.bc == bc) || run.contains(tile);
    if (is_run || (", " + tiles + ",").find(", " + tile + ",") != std::string::npos) continue;
    tiles += (tiles.empty() ? "" : ", ") + tile;
  }
  std::vector<std::string> left;
  if (!tiles.empty()) left.push_back("tiles of " + tiles + " (--tile-shape)");
  left.push_back("sequences of more than " + std::to_string(most_tiles) + " tiles");
  return left;
}

}  // namespace lanescope

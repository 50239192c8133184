#include "gates/run/presets.h"

#include <string>

#include "debug/text/nearest.h"
#include "reference/error.h"

namespace lanescope {
namespace {

Problem square(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t d) {
  return {batch, heads, heads, length, length, d, false};
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"debug", square(1, 1, 128, 128), "two tiles each way, D = 128; the default"},
      {"fa1-4", square(1, 1, 4, 4), "smaller than any tile"},
      {"fa1-64", square(1, 1, 64, 64), "one whole tile"},
      {"fa1-65", square(1, 1, 65, 64), "one row and one key more than a tile"},
      {"fa1-128", square(1, 1, 128, 64), ""},
      {"fa1-192", square(1, 1, 192, 64), ""},
      {"fa1-256", square(1, 1, 256, 64), ""},
      {"fa1-512", square(1, 1, 512, 64), ""},
      {"single_tile", square(1, 1, 32, 64), "one tile of 32"},
      {"small", square(1, 1, 32, 64), "as single_tile"},
      {"mission", square(1, 8, 512, 64), ""},
      {"long", square(1, 8, 2048, 64), ""},
  };
  return all;
}

const Preset& find_preset(std::string_view name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    names.emplace_back(preset.name);
  }
  throw UsageError("there is no preset '" + std::string(name) + "'" + did_you_mean(name, names) +
                   "; presets: " + listed(names));
}

}  // namespace lanescope

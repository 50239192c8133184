#pragma once

#include <string_view>
#include <vector>

#include "reference/problem.h"

namespace lanescope {

/// A shape with a name.
struct Preset {
  std::string_view name;
  Problem problem;
  std::string_view about;
};

/// All presets, in the order in which `lanescope list` shows them.
const std::vector<Preset>& presets();

/// Throws UsageError, listing the names, where there is none of this name.
const Preset& find_preset(std::string_view name);

}  // namespace lanescope

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/scene.h"

namespace lanescope {

/// A part of a tile that is said in few words: "rows whose bit 3 is set", "columns from 32 on".
struct Extent {
  std::string text;
  std::function<bool(const Element&)> holds;
};

/// What such an extent costs to say, in bits: which of about two hundred.
constexpr double extent_bits = 8;

/// The extent in which the elements hold `values` while the right ones stand outside of it, with
/// fewer than 2 % of exceptions; nothing where there is none.
std::optional<Extent> extent_of(const Scene& scene, const std::vector<double>& values);

}  // namespace lanescope

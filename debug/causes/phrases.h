#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "debug/causes/scene.h"
#include "debug/text/text.h"

namespace lanescope {

/// `numbers` (sorted, without doubles) as "0, 3, 8..15", cut after a few.
inline std::string list_text(std::vector<std::int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string text;
  int parts = 0;
  for (std::size_t i = 0; i < numbers.size();) {
    if (++parts > 6) return text + ", ...";
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (end - i > 1) text += (end - i == 2 ? ", " : "..") + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

/// "softmax's m[3]", "s[3][5]": a place of a site.
inline std::string element_text(std::string_view name, std::int64_t row, std::int64_t col,
                                std::int64_t cols) {
  std::string text = std::string(name) + "[" + std::to_string(row) + "]";
  if (cols > 1) text += "[" + std::to_string(col) + "]";
  return text;
}

inline std::string value_text(double value) { return number_text(value, 7); }

/// "12 of 64", for counts.
inline std::string share_text(std::int64_t part, std::int64_t whole) {
  return std::to_string(part) + " of " + std::to_string(whole);
}

/// "warp 0, lane 5, register 1" as far as it is known.
inline std::string holder_text(const Holder& holder) {
  std::string text;
  const auto add = [&](const char* name, std::int64_t value) {
    if (value < 0) return;
    text += std::string(text.empty() ? "" : ", ") + name + " " + std::to_string(value);
  };
  add("warp", holder.warp);
  add("lane", holder.lane);
  add("register", holder.reg);
  return text;
}

/// The first wrong element of the scene as evidence: place, got, what it should be.
inline std::string example_text(const Scene& scene, const Element& e) {
  std::string text = element_text(name_of(scene.site()), e.row, e.col, scene.cols());
  const std::string holder = holder_text(e.holder);
  if (!holder.empty()) text += " (" + holder + ")";
  text += e.unwritten ? " was never written" : " is " + value_text(e.got);
  return text + ", should be " + value_text(e.want);
}

/// How a mapping of indices is said: "x xor 1", "x + 8", or its first pairs.
inline std::string mapping_text(const std::vector<std::pair<std::int64_t, std::int64_t>>& map,
                                const std::string& what) {
  if (map.empty()) return what;
  const auto [from, to] = map.front();
  // A value that happens to fit elsewhere too does not spoil the rule.
  std::size_t shift = 0, exclusive = 0;
  for (const auto& [a, b] : map) {
    shift += b - a == to - from;
    exclusive += (a ^ b) == (from ^ to);
  }
  const auto most = [&](std::size_t count) {
    return map.size() > 1 && 10 * count >= 9 * map.size();
  };
  if (most(exclusive)) {
    return what + " i holds what belongs to " + what + " i xor " + std::to_string(from ^ to);
  }
  if (most(shift)) {
    return what + " i holds what belongs to " + what + " i " + (to > from ? "+ " : "- ") +
           std::to_string(std::abs(to - from));
  }
  std::string text;
  for (std::size_t i = 0; i < map.size() && i < 3; ++i) {
    text += (i ? "; " : "") + what + " " + std::to_string(map[i].first) +
            " holds what belongs to " + what + " " + std::to_string(map[i].second);
  }
  return text + (map.size() > 3 ? "; ..." : "");
}

}  // namespace lanescope

#include "debug/causes/row_subset.h"

#include <algorithm>

namespace lanescope {
namespace {

/// Of each kind, to tell a rule from a coincidence.
constexpr std::size_t fewest = 3;

}  // namespace

std::string subset_text(const std::string& what, const std::vector<std::int64_t>& in,
                        const std::vector<std::int64_t>& out, std::int64_t count) {
  if (in.size() < fewest || out.size() < fewest) return {};
  for (std::int64_t bit = 1; bit < count; bit *= 2) {
    for (const std::int64_t half : {bit, std::int64_t{0}}) {
      const auto holds = [&](std::int64_t number) { return (number & bit) == half; };
      if (!std::all_of(in.begin(), in.end(), holds)) continue;
      if (std::any_of(out.begin(), out.end(), holds)) continue;
      if (bit == 1) return (half ? "odd " : "even ") + what;
      const std::string range =
          what + " " + std::to_string(half) + " to " + std::to_string(half + bit - 1);
      return 2 * bit >= count ? range : range + " of every " + std::to_string(2 * bit);
    }
  }
  // Components of vectors.
  for (const std::int64_t width : {4, 8}) {
    for (std::int64_t own = 0; own < width && width < count; ++own) {
      const auto holds = [&](std::int64_t number) { return number % width == own; };
      if (!std::all_of(in.begin(), in.end(), holds)) continue;
      if (std::any_of(out.begin(), out.end(), holds)) continue;
      return what + " i with i mod " + std::to_string(width) + " = " + std::to_string(own);
    }
  }
  // Ends, as loops and warps that are left out have them: a multiple of 8.
  const auto [in_low, in_high] = std::minmax_element(in.begin(), in.end());
  if (*in_high >= count) return {};
  const auto [out_low, out_high] = std::minmax_element(out.begin(), out.end());
  const std::int64_t first = *in_low / 8 * 8, end = (*in_high / 8 + 1) * 8;
  if (*out_high < first) return what + " from " + std::to_string(first) + " on";
  if (*out_low >= end) return what + " below " + std::to_string(end);
  return {};
}

}  // namespace lanescope

#include "debug/causes/row_subset.h"

#include <algorithm>

namespace lanescope {
namespace {

/// Of each kind, to tell a rule from a coincidence.
constexpr std::size_t fewest_rows = 3;

}  // namespace

std::string rows_text(const std::vector<std::int64_t>& in, const std::vector<std::int64_t>& out,
                      std::int64_t br) {
  if (in.size() < fewest_rows || out.size() < fewest_rows) return {};
  for (std::int64_t bit = 1; bit < br; bit *= 2) {
    for (const std::int64_t half : {bit, std::int64_t{0}}) {
      const auto holds = [&](std::int64_t row) { return (row & bit) == half; };
      if (!std::all_of(in.begin(), in.end(), holds)) continue;
      if (std::any_of(out.begin(), out.end(), holds)) continue;
      if (bit == 1) return half ? "odd rows" : "even rows";
      return "rows " + std::to_string(half) + " to " + std::to_string(half + bit - 1) +
             " of every " + std::to_string(2 * bit);
    }
  }
  return {};
}

}  // namespace lanescope

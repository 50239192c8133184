#include "debug/text/nearest.h"

#include <algorithm>
#include <cctype>

namespace lanescope {
namespace {

constexpr std::size_t longest = 64;  // of names; what is longer is none

/// Steps from `a` to `b`, each of them one character: left out, put in, another, or two swapped.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  };
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::move(last);
    last = std::move(row);
    row.assign(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + !same(a[i - 1], b[j - 1])});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& names) {
  if (wrong.empty() || wrong.size() > longest) return {};
  const std::string* nearest = nullptr;
  // Something of it must be there.
  std::size_t least = std::min(std::max<std::size_t>(1, wrong.size() / 3) + 1, wrong.size());
  for (const std::string& name : names) {
    const bool begins = wrong.size() > 1 && name.starts_with(wrong);
    const std::size_t distance = begins ? 1 : edit_distance(wrong, name);
    if (distance >= least) continue;
    least = distance;
    nearest = &name;
  }
  return nearest == nullptr ? std::string() : " (did you mean " + *nearest + "?)";
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace lanescope

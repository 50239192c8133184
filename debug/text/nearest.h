#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lanescope {

/// " (did you mean mma?)" where `wrong` is no name and one of `names` is near: up to a third of its
/// characters left out, too many, others or swapped with the next (edit distance: optimal string
/// alignment), or it begins with `wrong`. Of several the nearest, the first of those. Else nothing.
std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& names);

/// `names` behind each other: "a, b, c".
std::string listed(const std::vector<std::string>& names);

}  // namespace lanescope

#pragma once

#include <string>
#include <vector>

#include "reference/site.h"

namespace lanescope {

/// Where the source of `kernel`, a declared one, makes the value of `site`: the function that is
/// called as the stage is, "kernels/scalar.h:67-77 (softmax)", else what stands between the seam
/// before and its own; then the seam that it passes. Empty where there is no source at hand, or no
/// seam in it.
std::vector<std::string> source_places(const std::string& kernel, Stage stage, SiteId site);

}  // namespace lanescope

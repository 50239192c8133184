#pragma once

#include <optional>
#include <string>
#include <vector>

#include "debug/causes/diagnose.h"
#include "reference/site.h"

namespace lanescope {

/// Where the source of `kernel`, a declared one, makes the value of `site`: the function that is
/// called as the stage is, "kernels/scalar.h:67-77 (softmax)", else what stands between the seam
/// before and its own; then the seam that it passes. Empty where there is no source at hand, or no
/// seam in it.
std::vector<std::string> source_places(const std::string& kernel, Stage stage, SiteId site);

/// Where it says which scores count: its functions that take a mask, or have it in their names,
/// stages left out, "kernels/parts/wgmma_stages.h:112-125 (mask_scores)".
std::vector<std::string> mask_places(const std::string& kernel);

/// The stage whose function, of its name in the source of `kernel`, has these lines,
/// "kernels/x.h:12"; nothing where they are of several or of none.
std::optional<Stage> stage_of_lines(const std::string& kernel,
                                    const std::vector<std::string>& lines);

/// Whatever lies where two lanes race: where the function of one stage does both, that stage is it.
void place_race(const std::string& kernel, Diagnosis& diagnosis);

}  // namespace lanescope

#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "debug/causes/causes.h"
#include "gates/run/provenance.h"
#include "gates/run/term_truth.h"
#include "reference/problem.h"

namespace lanescope {

inline bool is_near(double x, double y) { return std::abs(x / y - 1) < 0.01; }

/// By which a factor of an exponent is off. `d`: columns that the scale is of.
Cause cause_of_factor(double factor, std::int64_t d);

/// What makes numbers of a kind wrong, and the factors that their parts have.
struct PartFactors {
  Cause cause;
  std::string text;
};

/// Whether numbers that are no multiples of what they should be are sums of parts, each with a
/// factor of its own: columns of a product, a weight's score and its maximum, tiles of P·V. All
/// are of one kind, with what they should be; nothing where no parts give them all.
std::optional<PartFactors> factors_of_parts(
    const std::vector<std::pair<double, Provenance::Term>>& all, const Problem& problem,
    TermTruth& truth);

}  // namespace lanescope

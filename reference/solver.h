#pragma once

#include <optional>

#include "reference/array.h"

namespace lanescope::reference {

/// (b·bᵀ)⁻¹·b, [n, m], of b [n, m] with n <= m: X = c·(that)ᵀ solves X·b = c. Nothing where b does
/// not determine X: the reciprocal condition number of b·bᵀ is below `least`.
std::optional<Array> solver(const Array& b, double least);

}  // namespace lanescope::reference

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/detectors.h"

// What the detectors of the combine pass share (find_combine).
namespace lanescope {

/// What the splits left for the row tile, as traced, and the right weights of it.
struct Parts {
  std::vector<reference::Array> o, m, l;  ///< of each split
  std::vector<reference::Array> weight;   ///< 2^(m_i − m)
  reference::Array top;                   ///< m = max_i m_i
  double scale = 1;                       ///< of the softmax
  double unit = 1;                        ///< what maxima as held are multiplied by to be in base 2

  std::size_t count() const { return o.size(); }
};

/// Those of the blocks first, first + step, ...; nothing where a partial was not traced.
std::optional<Parts> parts_of(const Scene& scene, std::int64_t first, std::int64_t step);

/// A factor [rows, 1] of each split's part.
using Factors = std::function<reference::Array(std::size_t split)>;

/// Σ_i x_i · factor_i, [rows, ·].
reference::Array sum_of_parts(const std::vector<reference::Array>& x, const Factors& factor);

/// What else than the weight the parts of the splits may be multiplied with.
struct Mistake {
  Cause cause;
  std::string text;
  Factors factor;
};
/// Those that kernels are known to have.
std::vector<Mistake> combine_mistakes(const Parts& parts);

/// The right sum, of parts that were taken from another place than they should be, `right`.
void try_other_parts(const Scene& scene, const Parts& right, Findings& findings);
/// Weights relative to another number than the largest maximum, as single precision holds them.
void try_other_references(const Scene& scene, const Parts& parts, Findings& findings);
/// A split left its part at the place of another.
void try_other_splits(const Scene& scene, Findings& findings);

}  // namespace lanescope

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/online.h"

namespace lanescope::testing {

/// Largest |got − want| / max(|want|, least); infinite where the infinities differ.
inline double difference(const double* got, const double* want, std::size_t count, double least) {
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (got[i] == want[i]) continue;
    const double error = std::abs(got[i] - want[i]) / std::max(std::abs(want[i]), least);
    largest = error <= largest    ? largest
              : std::isnan(error) ? std::numeric_limits<double>::infinity()
                                  : error;
  }
  return largest;
}

/// tile [rows, cols] against rows of the stored [tile, row, col].
inline double difference(const reference::Array& tile, const std::vector<double>& stored,
                         std::int64_t index, double least) {
  const reference::Array values = tile.transpose();
  const auto count = static_cast<std::size_t>(values.size());
  return difference(values.data(), stored.data() + static_cast<std::size_t>(index) * count, count,
                    least);
}

/// A walk over tiles of br queries and bc keys, Q, K and V in `width` columns; else by default.
inline reference::Walk walk_of(std::int64_t br, std::int64_t bc, std::int64_t width) {
  return {.br = br, .bc = bc, .width = width, .arithmetic = {}};
}

}  // namespace lanescope::testing

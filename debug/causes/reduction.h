#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "debug/causes/scene.h"
#include "reference/elementary.h"

namespace lanescope {

/// What m or l would be if only the columns that `keep` keeps for an element were reduced.
class Reduction {
 public:
  explicit Reduction(const Scene& scene);
  bool possible() const { return possible_; }
  reference::Index cols() const { return terms_.cols(); }

  bool is_maximum() const { return is_maximum_; }

  /// `times`: how often a sum counts what is kept.
  template <class Keep>
  double over(reference::Index row, const Keep& keep, double times = 1) const {
    const double value = reduce(start_(row), row, keep, times);
    return is_maximum_ && !follows(row, value) ? start_(row) : value;
  }
  /// The same without what the row brings along from the tiles before.
  template <class Keep>
  double over_terms(reference::Index row, const Keep& keep) const {
    return reduce(is_maximum_ ? -reference::infinity : 0, row, keep, 1);
  }
  /// What the row brings along: m_prev, or alpha · l of the tile before.
  double start(reference::Index row) const { return start_(row); }
  /// The two reduced to one.
  double with(double a, double b) const { return is_maximum_ ? std::fmax(a, b) : a + b; }

 private:
  template <class Keep>
  double reduce(double value, reference::Index row, const Keep& keep, double times) const {
    for (reference::Index col = 0; col < terms_.cols(); ++col) {
      if (!keep(col)) continue;
      value = is_maximum_ ? std::fmax(value, terms_(row, col)) : value + times * terms_(row, col);
    }
    return value;
  }

  bool follows(reference::Index row, double top) const {
    return rule_.by_sums ? rises_[static_cast<std::size_t>(row)] : top > start_(row) + rule_.above;
  }

  bool possible_ = false, is_maximum_ = false;
  RescaleRule rule_;         ///< by which m follows
  std::vector<bool> rises_;  ///< where that goes by sums
  Scene::Array terms_, start_;
};

/// The lane that takes each column of each row into the reduction.
using LaneOf = std::vector<std::vector<std::int64_t>>;

/// The lanes that hold the scores. Where these lie in shared memory, the two usual ways to share a
/// row among the lanes that hold its result: each a part of the row, or every n-th column.
std::vector<LaneOf> lanes_of_columns(const Scene& scene, reference::Index col_count);

}  // namespace lanescope

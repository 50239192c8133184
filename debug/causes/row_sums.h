#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "debug/causes/row_plan.h"
#include "reference/elementary.h"

namespace lanescope {

/// e^(from − to); of a tile without a visible key, where both are −∞, 0.
inline double weight(double from, double to) {
  return from == -reference::infinity ? 0 : std::exp(from - to);
}

/// A row's way over its tiles, which count as they are visited.
struct PlanInputs::Walk {
  std::vector<double> scores;        ///< of the terms
  std::vector<std::size_t> tile_of;  ///< the visit of each term
  std::size_t width = 64, tiles = 0;
  bool downwards = false;
  std::vector<double> peak, running;  ///< the tile's maximum, and that up to it
  std::vector<double> held;           ///< as what m goes on from a visit; empty: as it is
  double m = -reference::infinity;
  double largest_score = 0;

  std::size_t visit(std::size_t tile) const { return downwards ? tiles - 1 - tile : tile; }
  /// m behind a visit, or behind the last one where there are fewer.
  double running_at(std::size_t visited) const {
    return running.empty() ? -reference::infinity : running[std::min(visited, running.size() - 1)];
  }
  /// m before a visit.
  double before(std::size_t visited) const {
    return visited > 0 ? running[visited - 1] : -reference::infinity;
  }
  double alpha(std::size_t visited) const {
    return weight(visited > 0 && !held.empty() ? held[visited - 1] : before(visited),
                  running[visited]);
  }
  /// What takes a visit's sums to the last maximum.
  double brought(std::size_t visited) const { return weight(running[visited], m); }
  /// l, at the last maximum.
  double whole_sum() const {
    double sum = 0;
    for (const double score : scores) sum += weight(score, m);
    return sum;
  }
  /// The maximum up to a tile is that of its chain of `keys` alone; m stays.
  void start_anew(std::size_t keys) {
    for (std::size_t visited = 0; visited < tiles; ++visited) {
      const std::size_t first = visit(visited) * width;
      const bool goes_on = visited > 0 && first / keys == visit(visited - 1) * width / keys;
      running[visited] = goes_on ? std::max(running[visited - 1], peak[visited]) : peak[visited];
    }
  }
  /// From one tile to the next, m is the tile's own maximum.
  void keep_own_peaks() {
    held = peak;
    for (std::size_t visited = 1; visited < tiles; ++visited) {
      running[visited] = std::max(peak[visited - 1], peak[visited]);
    }
    if (tiles > 0) m = peak[tiles - 1];
  }
  /// From one tile to the next, m is what `kept` makes of it.
  void keep(const std::function<double(double)>& kept) {
    const auto kept_of = [&](double top) { return std::isfinite(top) ? kept(top) : top; };
    held.clear();
    for (std::size_t visited = 0; visited < tiles; ++visited) {
      running[visited] = visited > 0 ? std::max(held.back(), peak[visited]) : peak[visited];
      held.push_back(kept_of(running[visited]));
    }
    if (tiles > 0) m = held.back();
  }
};

/// What the tiles leave.
struct PlanInputs::Sums {
  double m = -reference::infinity;
  double largest_score = 0;
  std::vector<double> in_o, in_l;  ///< what each term adds, brought to m
  double l_besides = 0;            ///< what l has of other rows
  double l_before_last = 0;        ///< l as the last tile found it
  double last_alpha = 1;
  std::vector<double> brought;  ///< by tile: what takes its sums to m

  /// Weighs the quotients of parts of the terms by another rule than their l.
  void combine_by(Combine rule, const PartKeys& keys, const std::vector<double>& scores);
  /// Brings parts to the common maximum with other powers.
  void bring_by(const PartPowers& powers, const PartKeys& keys, const std::vector<double>& scores);
  /// Weighs each part's terms relative to its own maximum, by its rules.
  void weigh_apart(const RowPlan& plan, const std::vector<double>& scores);
  /// Puts parts together by lanes that do not all meet.
  void reduce_by(const PartLanes& lanes, const PartKeys& keys);
  /// By how much the largest log-sum-exp of the parts is above m.
  double largest_part(const PartKeys& keys) const;

 private:
  /// What the terms of a part come to.
  struct Part {
    double l = 0, peak = -reference::infinity;
  };
  /// By number; `scores` may be empty, then no part has a peak.
  std::vector<Part> parts(const PartKeys& keys, const std::vector<double>& scores) const;
};

}  // namespace lanescope

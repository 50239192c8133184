#include "debug/causes/row_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "debug/causes/visit_sums.h"
#include "reference/rescale_rule.h"

namespace lanescope {
using reference::infinity;

PlanInputs::Walk PlanInputs::walk(const RowPlan& plan) {
  Walk walk;
  walk.scores = scores_of(plan);
  const std::vector<double>& scores = walk.scores;
  walk.width = static_cast<std::size_t>(plan.tile);
  walk.downwards = plan.downwards;
  // A term that stands for no key of the inputs lies behind the last.
  walk.tiles = std::max(static_cast<std::size_t>(plan.tiles),
                        scores.empty() ? 0 : (scores.size() - 1) / walk.width + 1);
  walk.tile_of.reserve(scores.size());
  for (std::size_t tile = 0; walk.tile_of.size() < scores.size(); ++tile) {
    walk.tile_of.insert(walk.tile_of.end(),
                        std::min(walk.width, scores.size() - walk.tile_of.size()),
                        walk.visit(tile));
  }
  walk.peak.assign(walk.tiles, -infinity);
  walk.running.assign(walk.tiles, -infinity);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    // What a masked score becomes is no product that is rounded.
    if (std::isfinite(scores[i]) && !plan.terms[i].is_masked) {
      walk.largest_score = std::max(walk.largest_score, std::abs(scores[i]));
    }
    double& own = walk.peak[walk.tile_of[i]];
    own = std::max(own, scores[i]);
  }
  // The maximum follows from one tile to the next as the kernel declares it.
  for (std::size_t visited = 0; visited < walk.tiles; ++visited) {
    const std::size_t first = std::min(walk.visit(visited) * walk.width, scores.size());
    const std::size_t keys = std::min(walk.width, scores.size() - first);
    const auto score = [&](reference::Index key) {
      return scores[first + static_cast<std::size_t>(key)] * reference::log2_e;
    };
    const double top = walk.peak[visited];
    if (reference::rises(info().rescale, walk.m * reference::log2_e, top * reference::log2_e,
                         static_cast<reference::Index>(keys), score)) {
      walk.m = std::max(walk.m, top);
    }
    walk.running[visited] = walk.m;
  }
  if (plan.keys_per_chain > 0) walk.start_anew(static_cast<std::size_t>(plan.keys_per_chain));
  if (plan.keeps_own_peak) walk.keep_own_peaks();
  if (plan.m_kept) walk.keep(plan.m_kept);
  return walk;
}

PlanInputs::Walk PlanInputs::walk_of_row(const RowPlan& plan, std::int64_t in_tile) {
  const std::int64_t first = plan.query / info().br * info().br;
  RowPlan other = right_plan(plan.batch, plan.head, first + in_tile);
  other.tile = plan.tile;
  other.tiles = plan.tiles;
  other.downwards = plan.downwards;
  return walk(other);
}

/// l as the visits find and leave it, and P that is divided by it.
void PlanInputs::divide(const RowPlan& plan, const Walk& own, Sums& sums) {
  std::vector<double> of_tile(own.tiles);
  for (std::size_t i = 0; i < sums.in_l.size(); ++i) of_tile[own.tile_of[i]] += sums.in_l[i];
  std::vector<double> up_to = of_tile;
  for (std::size_t visited = 1; visited < own.tiles; ++visited) {
    up_to[visited] += up_to[visited - 1];
  }
  // At the last maximum; the kernel has them at the visit's.
  const auto then = [&](double sum, std::size_t visited) {
    return sum / weight(own.running[visited], own.m);
  };
  if (own.tiles > 1) {
    sums.l_before_last = then(up_to[own.tiles - 2], own.tiles - 2);
    sums.last_alpha = own.alpha(own.tiles - 1);
  }
  if (plan.p_divided == Division::none) return;
  const std::vector<double>& divisors = plan.p_divided == Division::tile_sum ? of_tile : up_to;
  for (std::size_t i = 0; i < sums.in_o.size(); ++i) {
    if (sums.in_o[i] == 0) continue;
    const std::size_t last = plan.p_divided == Division::all_sums ? own.tiles - 1 : own.tile_of[i];
    for (std::size_t visited = own.tile_of[i]; visited <= last; ++visited) {
      sums.in_o[i] /= then(divisors[visited], visited);
    }
  }
}

PlanInputs::Sums PlanInputs::sums_anew(const RowPlan& plan) {
  Sums sums = sums_of(right_plan(plan.batch, plan.head, plan.query));
  sums.l_besides += std::accumulate(sums.in_l.begin(), sums.in_l.end(), 0.0);
  const std::vector<double> scores = scores_of(plan);
  sums.in_l.assign(scores.size(), 0);
  sums.in_o.assign(scores.size(), 0);
  sums.brought.assign(scores.size() / static_cast<std::size_t>(plan.tile) + 1, 1);
  for (std::size_t i = 0; i < scores.size() && sums.m > -infinity; ++i) {
    const double s = scores[i];
    if (std::isfinite(s)) sums.largest_score = std::max(sums.largest_score, std::abs(s));
    sums.in_o[i] = plan.terms[i].in_o * weight(plan.weights_anew * s, plan.weights_anew * sums.m);
  }
  return sums;
}

PlanInputs::Sums PlanInputs::sums_of(const RowPlan& plan) {
  if (plan.weights_anew != 0) return sums_anew(plan);
  const Walk own = walk(plan);
  Sums sums;
  sums.m = own.m;
  sums.largest_score = own.largest_score;
  VisitSums visits(*this, plan, own);
  sums.in_o.reserve(own.scores.size());
  sums.in_l.reserve(own.scores.size());
  for (std::size_t i = 0; i < own.scores.size(); ++i) {
    const auto [in_o, in_l] = visits.shares_of(i);
    sums.in_o.push_back(plan.terms[i].in_o * in_o);
    sums.in_l.push_back(plan.terms[i].in_l * in_l);
  }
  sums.l_besides += visits.l_of_other_rows();
  if (plan.sums_columns) {
    std::fill(sums.in_l.begin(), sums.in_l.end(), 0);
    sums.l_besides += visits.l_of_column();
  }
  for (std::size_t tile = 0; tile < own.tiles; ++tile) {
    sums.brought.push_back(own.brought(own.visit(tile)));
  }
  divide(plan, own, sums);
  if (!plan.part_rules.right()) sums.weigh_apart(plan, own.scores);
  if (plan.combine != Combine::right) sums.combine_by(plan.combine, plan.part_keys, own.scores);
  if (!plan.part_lanes.right()) sums.reduce_by(plan.part_lanes, plan.part_keys);
  if (!plan.part_powers.right()) sums.bring_by(plan.part_powers, plan.part_keys, own.scores);
  return sums;
}

}  // namespace lanescope

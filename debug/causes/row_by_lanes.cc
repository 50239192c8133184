#include <algorithm>
#include <array>
#include <cmath>

#include "debug/causes/row_sums.h"

namespace lanescope {
namespace {

using ByLane = std::array<double, 32>;

/// The lowest of the lanes that `lane` is reduced with.
std::size_t first_of(std::size_t lane, int distances) {
  return lane & ~static_cast<std::size_t>(distances);
}

/// What shuffles down leave in each lane.
void reduce_down(ByLane& sums) {
  for (std::size_t step = sums.size() / 2; step > 0; step /= 2) {
    const ByLane before = sums;
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      sums[lane] += before[lane + step < sums.size() ? lane + step : lane];
    }
  }
}

}  // namespace

PlannedRow PlanInputs::carry_out_by_lanes(const RowPlan& plan) {
  const std::vector<double> scores = scores_of(plan);
  const auto d = static_cast<std::size_t>(problem().d), tile = static_cast<std::size_t>(plan.tile);
  const LaneReductions& lanes = plan.lanes;
  const auto count = static_cast<std::size_t>(lanes.lanes);
  const bool is_quad = count == 4, by_itself = lanes.sums_at_end || lanes.sums_down;
  const auto lane_of = [&](std::size_t col) {
    return is_quad ? col / 2 % 4 : lanes.side_by_side ? col * count / d : col % count;
  };
  const auto lane_of_key = [&](std::size_t i) {
    return is_quad ? i % tile / 2 % 4 : i % tile % count;
  };
  PlannedRow row{std::vector<double>(d), std::vector<double>(d), 0, 0};
  ByLane m, l{};
  m.fill(-reference::infinity);
  const std::size_t tiles = (scores.size() + tile - 1) / tile;
  for (std::size_t visited = 0; visited < tiles; ++visited) {
    const std::size_t first = (plan.downwards ? tiles - 1 - visited : visited) * tile;
    const std::size_t end = std::min(first + tile, scores.size());
    ByLane top = m, sum{}, alpha;
    for (std::size_t i = first; i < end; ++i) {
      row.largest_score = std::max(row.largest_score, std::abs(scores[i]));
      double& own = top[first_of(lane_of_key(i), lanes.of_maximum)];
      own = std::max(own, scores[i]);
    }
    for (std::size_t lane = 0; lane < count; ++lane) {
      const double now = top[first_of(lane, lanes.of_maximum)];
      alpha[lane] = weight(m[lane], now);
      m[lane] = now;
    }
    for (std::size_t col = 0; col < d; ++col) {
      row.o[col] *= alpha[lane_of(col)];
      row.magnitude[col] *= alpha[lane_of(col)];
    }
    for (std::size_t i = first; i < end; ++i) {
      const std::size_t lane = lane_of_key(i);
      const double p = weight(scores[i], m[lane]);
      sum[by_itself ? lane : first_of(lane, lanes.of_sum)] += p;
      const std::vector<double>& v = value_of_term(plan, plan.terms[i]);
      for (std::size_t col = 0; col < d; ++col) {
        const std::size_t key = lanes.own_weights ? i - i % count + lane_of(col) : i;
        const double share = key < end ? (key == i ? p : weight(scores[key], m[lane])) * v[col] : 0;
        row.o[col] += share;
        row.magnitude[col] += std::abs(share);
      }
    }
    if (lanes.sums_down && !lanes.sums_at_end) reduce_down(sum);
    for (std::size_t lane = 0; lane < count; ++lane) {
      l[lane] = l[lane] * alpha[lane] + sum[by_itself ? lane : first_of(lane, lanes.of_sum)];
    }
  }
  if (lanes.sums_at_end && lanes.sums_down) {
    reduce_down(l);
  } else if (lanes.sums_at_end) {
    ByLane all{};
    for (std::size_t lane = 0; lane < count; ++lane) all[first_of(lane, lanes.of_sum)] += l[lane];
    for (std::size_t lane = 0; lane < count; ++lane) l[lane] = all[first_of(lane, lanes.of_sum)];
  }
  const double v_scale = v_scale_of(plan);
  for (std::size_t col = 0; col < d; ++col) {
    const double divisor = l[lane_of(col)], factor = divisor == 0 ? 0 : v_scale / divisor;
    row.o[col] *= factor;
    row.magnitude[col] *= std::abs(factor);
  }
  row.lse = m[0] + std::log(l[0]);
  return row;
}

}  // namespace lanescope

#include <algorithm>
#include <array>
#include <cmath>

#include "debug/causes/row_plan.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

constexpr std::size_t lanes_of_warp = 32;
using ByLane = std::array<double, lanes_of_warp>;

/// The lowest of the lanes that `lane` is reduced with.
std::size_t first_of(std::size_t lane, int distances) {
  return lane & ~static_cast<std::size_t>(distances);
}

double share_of(double from, double to) {
  return from == -reference::infinity ? 0 : std::exp(from - to);
}

}  // namespace

PlannedRow PlanInputs::carry_out_by_lanes(const RowPlan& plan) {
  const std::vector<double> scores = scores_of(plan);
  const auto d = static_cast<std::size_t>(problem().d), tile = static_cast<std::size_t>(plan.tile);
  const auto lane_of = [&](std::size_t col) {
    return plan.lanes.side_by_side ? col * lanes_of_warp / d : col % lanes_of_warp;
  };
  PlannedRow row{std::vector<double>(d), std::vector<double>(d), 0, 0};
  ByLane m, l{};
  m.fill(-reference::infinity);
  for (std::size_t first = 0; first < scores.size(); first += tile) {
    const std::size_t end = std::min(first + tile, scores.size());
    ByLane top = m, sum{}, alpha;
    for (std::size_t i = first; i < end; ++i) {
      row.largest_score = std::max(row.largest_score, std::abs(scores[i]));
      double& own = top[first_of(i % tile % lanes_of_warp, plan.lanes.of_maximum)];
      own = std::max(own, scores[i]);
    }
    for (std::size_t lane = 0; lane < lanes_of_warp; ++lane) {
      const double now = top[first_of(lane, plan.lanes.of_maximum)];
      alpha[lane] = share_of(m[lane], now);
      m[lane] = now;
    }
    for (std::size_t col = 0; col < d; ++col) {
      row.o[col] *= alpha[lane_of(col)];
      row.magnitude[col] *= alpha[lane_of(col)];
    }
    for (std::size_t i = first; i < end; ++i) {
      const std::size_t lane = i % tile % lanes_of_warp;
      const double p = share_of(scores[i], m[lane]);
      sum[first_of(lane, plan.lanes.of_sum)] += p;
      const std::int64_t value = plan.terms[i].value;
      const std::vector<double>& v =
          this->row(inputs_.v, plan.v_type, value < 0 ? -1 : plan.v_first + value);
      for (std::size_t col = 0; col < d; ++col) {
        row.o[col] += p * v[col];
        row.magnitude[col] += std::abs(p * v[col]);
      }
    }
    for (std::size_t lane = 0; lane < lanes_of_warp; ++lane) {
      l[lane] = l[lane] * alpha[lane] + sum[first_of(lane, plan.lanes.of_sum)];
    }
  }
  const double v_scale = scale_of(inputs_.v_scale, plan.v_first, problem().len_kv);
  for (std::size_t col = 0; col < d; ++col) {
    const double divisor = l[lane_of(col)], factor = divisor == 0 ? 0 : v_scale / divisor;
    row.o[col] *= factor;
    row.magnitude[col] *= std::abs(factor);
  }
  row.lse = m[0] + std::log(l[0]);
  return row;
}

}  // namespace lanescope

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "debug/causes/row_sums.h"
#include "reference/elementary.h"

namespace lanescope {

PlanInputs::PlanInputs(const Dump& dump) : dump_(dump), inputs_(inputs_of(dump)) {}

const RowPlan& PlanInputs::right_plan(std::int64_t batch, std::int64_t head, std::int64_t query) {
  const auto known = right_plans_.find({batch, head, query});
  if (known != right_plans_.end()) return known->second;
  RowPlan plan = make_right_plan(batch, head, query);
  variant_(plan);
  return right_plans_.emplace(std::array{batch, head, query}, std::move(plan)).first->second;
}

void PlanInputs::go_by(std::function<void(RowPlan&)> variant) {
  variant_ = std::move(variant);
  right_plans_.clear();
}

RowPlan PlanInputs::make_right_plan(std::int64_t batch, std::int64_t head,
                                    std::int64_t query) const {
  const Problem& problem = this->problem();
  RowPlan plan;
  plan.batch = batch;
  plan.head = head;
  plan.query = query;
  // A row beyond the end is one of zeros.
  plan.q_row = query < problem.len_q ? (batch * problem.heads + head) * problem.len_q + query : -1;
  plan.k_first = plan.v_first = (batch * problem.heads_kv + problem.kv_head(head)) * problem.len_kv;
  plan.q_type = plan.k_type = plan.v_type = plan.o_type = plan.p_type = inputs_.type();
  plan.scale = 1 / std::sqrt(static_cast<double>(problem.d));
  plan.depth.assign(static_cast<std::size_t>(problem.d), 1);
  plan.tile = info().bc;
  const std::int64_t last = std::min(problem.len_q, (query / info().br + 1) * info().br) - 1;
  plan.tiles = (problem.visible_keys(last) + plan.tile - 1) / plan.tile;
  for (std::int64_t key = 0; key < problem.visible_keys(query); ++key) {
    plan.terms.push_back({.key = key, .value = key});
  }
  return plan;
}

namespace {

PlannedRow columns_of(const PlannedRow& whole, const std::vector<std::int64_t>& columns) {
  PlannedRow row{{}, {}, whole.lse, whole.largest_score};
  for (const std::int64_t col : columns) {
    row.o.push_back(whole.o[static_cast<std::size_t>(col)]);
    row.magnitude.push_back(whole.magnitude[static_cast<std::size_t>(col)]);
  }
  return row;
}

}  // namespace

/// What O is multiplied by at last; `l` is that of the lane that stores it.
double PlanInputs::factor_of(const RowPlan& plan, const Sums& sums, double l) {
  if (plan.terms.empty()) return 0;  // a row that takes no key is 0
  switch (plan.output) {
    case OutputRule::divided:
      break;
    case OutputRule::undivided:
      return 1;
    case OutputRule::divided_twice:
      return 1 / (l * l);
    case OutputRule::multiplied:
      return l;
    case OutputRule::by_exponential:
      return std::exp(-sums.m) / l;
    case OutputRule::by_count:
      return 1 / static_cast<double>(plan.terms.size());
    case OutputRule::by_whole_sum:
      return 1 / std::trunc(l);
    case OutputRule::by_sum_and_one:
      return 1 / (1 + l);
    case OutputRule::by_earlier_sum:
      return 1 / sums.l_before_last;
    case OutputRule::rescaled_again:
      return sums.last_alpha / l;
  }
  return 1 / l;
}

PlannedRow PlanInputs::carry_out(const RowPlan& plan) {
  std::vector<std::int64_t> columns(plan.depth.size());
  std::iota(columns.begin(), columns.end(), 0);
  return carry_out(plan, columns);
}

PlannedRow PlanInputs::carry_out(const RowPlan& plan, const std::vector<std::int64_t>& columns) {
  if (plan.moved_from) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    const auto [batch, head, query] = *plan.moved_from;
    if (query >= 0 && query < problem().len_q) {
      return carry_out(right_plan(batch, head, query), columns);
    }
    return {std::vector<double>(columns.size(), none), std::vector<double>(columns.size(), 0), none,
            0};
  }
  if (plan.lse_from) {
    const auto [batch, head, query] = *plan.lse_from;
    RowPlan own = plan;
    own.lse_from.reset();
    PlannedRow row = carry_out(own, columns);
    row.lse = carry_out(right_plan(batch, head, query), {}).lse;
    return row;
  }
  if (plan.in_columns) {
    RowPlan own = plan;
    own.in_columns = nullptr;
    PlannedRow row = carry_out(own, columns);
    plan.edit_there(own);
    const PlannedRow there = carry_out(own, columns);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!plan.in_columns(columns[i])) continue;
      row.o[i] = there.o[i];
      row.magnitude[i] = there.magnitude[i];
    }
    return row;
  }
  if (plan.edit_of_column) {
    RowPlan own = plan;
    own.edit_of_column = nullptr;
    PlannedRow row = carry_out(own, columns);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      RowPlan edited = own;
      plan.edit_of_column(edited, columns[i]);
      const PlannedRow there = carry_out(edited, {columns[i]});
      row.o[i] = there.o[0];
      row.magnitude[i] = there.magnitude[0];
    }
    return row;
  }
  if (plan.part_places.from) return carry_out_by_places(plan, columns);
  if (!plan.lanes.whole()) return columns_of(carry_out_by_lanes(plan), columns);
  const Sums sums = sums_of(plan);
  std::vector<std::int64_t> from = columns;
  for (std::int64_t& col : from) {
    if (plan.o_column) col = plan.o_column(col);
    if (col >= problem().d) col = -1;
  }
  PlannedRow row{std::vector<double>(from.size()), std::vector<double>(from.size()), 0,
                 sums.largest_score};
  // l of each lane of four: all the same but where the lanes do not put their shares together.
  double l[4] = {};
  for (std::size_t i = 0; i < sums.in_l.size(); ++i) {
    const std::size_t from = i / 2 % 4;
    for (std::size_t lane = 0; lane < 4; ++lane) {
      const bool counts = plan.sum_over == SumOver::all_lanes            ? true
                          : plan.sum_over == SumOver::own_lane           ? lane == from
                          : plan.sum_over == SumOver::lane_and_neighbour ? lane / 2 == from / 2
                                                                         : lane % 2 == from % 2;
      if (counts) l[lane] += sums.in_l[i];
    }
  }
  for (double& lane : l) {
    lane += sums.l_besides + (plan.sink > 0 ? plan.sink * std::exp(-sums.m) : 0);
  }
  double divisor[4];
  std::copy(std::begin(l), std::end(l), divisor);
  if (plan.divisor_row > 0) {
    const std::int64_t in_tile = plan.query % info().br;
    const std::int64_t query = plan.query - in_tile + (in_tile ^ plan.divisor_row);
    const Sums theirs = sums_of(right_plan(plan.batch, plan.head, query));
    double sum = 0;
    for (const double term : theirs.in_l) sum += term;
    std::fill(std::begin(divisor), std::end(divisor), sum);
  }
  add_values(plan, sums, from, row);
  const double v_scale = v_scale_of(plan);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double own = divisor[from[i] < 0 ? 0 : from[i] / 2 % 4];
    const bool takes_none = own == 0 && row.magnitude[i] == 0;
    const double factor = takes_none ? 0 : factor_of(plan, sums, own) * v_scale;
    row.o[i] *= factor;
    row.magnitude[i] *= std::abs(factor);
  }
  if (sums.m == -reference::infinity && plan.sink > 0) {
    row.lse = std::log(plan.sink);
    return row;
  }
  double m = sums.m, ln_l = std::log(l[0] * plan.in_lse);
  if (plan.lse == LseRule::of_parts && l[0] > 0 && !sums.in_l.empty()) {
    const double rise = sums.largest_part(plan.part_keys);
    m += rise;
    ln_l -= rise;
  }
  row.lse = plan.lse == LseRule::sum                 ? l[0]
            : plan.lse == LseRule::maximum_and_sum   ? m + l[0]
            : plan.lse == LseRule::logarithm_of_both ? std::log(m + l[0])
            : plan.lse == LseRule::product           ? m * ln_l
            : plan.lse_of_m == 0                     ? plan.lse_of_l * ln_l
                                                     : plan.lse_of_m * m + plan.lse_of_l * ln_l;
  return row;
}

void PlanInputs::add_values_by_key(const RowPlan& plan, const Sums& sums,
                                   const std::vector<std::int64_t>& from, PlannedRow& row) {
  const auto turns = static_cast<std::size_t>(plan.o_sums);
  const auto tile = static_cast<std::size_t>(plan.tile);
  const double l = std::accumulate(sums.in_l.begin(), sums.in_l.end(), sums.l_besides);
  std::vector<std::vector<double>> parts(turns, std::vector<double>(from.size()));
  for (std::size_t term = 0; term < plan.terms.size(); ++term) {
    // As the kernel has it, relative to the tile's maximum or to the sum.
    const double unit = plan.o_kept_divided ? l : sums.brought[term / tile];
    if (sums.in_o[term] == 0 || !(unit > 0)) continue;
    const std::vector<double>& v = value_of_term(plan, plan.terms[term]);
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i] < 0) continue;
      const double share = sums.in_o[term] * v[static_cast<std::size_t>(from[i])];
      double& part = parts[term % turns][i];
      part = plan.o_kept((part + share) / unit) * unit;
      row.magnitude[i] += std::abs(share);
    }
  }
  for (const std::vector<double>& part : parts) {
    for (std::size_t i = 0; i < part.size(); ++i) row.o[i] += part[i];
  }
}

void PlanInputs::add_values(const RowPlan& plan, const Sums& sums,
                            const std::vector<std::int64_t>& from, PlannedRow& row) {
  if (plan.o_sums > 0) return add_values_by_key(plan, sums, from, row);
  const auto tile = static_cast<std::size_t>(plan.tile);
  // As they are, for most plans.
  const Rows* const rows =
      plan.v_from ? nullptr : &rows_of(inputs_.v, plan.v_type, plan.v_exchanged);
  const auto values_of = [&](const RowPlan::Term& term) -> const std::vector<double>& {
    if (rows && term.value >= 0 && term.value_is == InputTensor::v &&
        plan.v_first + term.value + 1 < std::ssize(*rows)) {
      const std::vector<double>& own = (*rows)[static_cast<std::size_t>(plan.v_first + term.value)];
      if (!own.empty()) return own;
    }
    return value_of_term(plan, term);
  };
  for (std::size_t term = 0; term < plan.terms.size(); ++term) {
    const double weight = sums.in_o[term];
    if (weight != 0) {
      const std::vector<double>& v = values_of(plan.terms[term]);
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (from[i] < 0) continue;
        const double share = weight * v[static_cast<std::size_t>(from[i])];
        row.o[i] += share;
        row.magnitude[i] += std::abs(share);
      }
    }
    if (!plan.o_kept) continue;
    const bool ends = (term + 1) % tile == 0 || term + 1 == plan.terms.size();
    if (ends && sums.brought[term / tile] > 0) {
      // As the tile has it, relative to its maximum.
      for (double& o : row.o) {
        o = plan.o_kept(o / sums.brought[term / tile]) * sums.brought[term / tile];
      }
    }
  }
}

}  // namespace lanescope

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "debug/causes/row_sums.h"
#include "reference/elementary.h"

namespace lanescope {
PlanInputs::PlanInputs(const Dump& dump) : dump_(dump), inputs_(inputs_of(dump)) {}

const std::vector<double>& PlanInputs::row(const Tensor& tensor, ElementType type, std::int64_t row,
                                           bool exchanged) {
  std::vector<std::vector<double>>& rows = rows_[{&tensor, type, exchanged}];
  if (rows.empty()) rows.resize(static_cast<std::size_t>(tensor.size() / tensor.dims.back() + 1));
  std::vector<double>& values = row < 0 ? rows.back() : rows[static_cast<std::size_t>(row)];
  if (!values.empty()) return values;
  const std::int64_t d = problem().d;
  values.assign(static_cast<std::size_t>(d), 0);
  const std::int64_t length = tensor.dims.end()[-2], head = row / length;
  for (std::int64_t i = 0; row >= 0 && i < d; ++i) {
    const std::int64_t at =
        exchanged ? (head * d + i) * length + row % length : row * tensor.dims.back() + i;
    values[static_cast<std::size_t>(i)] = value_of(type, tensor.bits(at));
  }
  return values;
}

double PlanInputs::scale_of(const Tensor& scale, std::int64_t first_row,
                            std::int64_t rows_per_head) const {
  return inputs_.scaled() && first_row >= 0 ? scale.at(first_row / rows_per_head) : 1;
}

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

const std::vector<double>& PlanInputs::taken_row(const Tensor& tensor, ElementType type,
                                                 std::int64_t first, std::int64_t row,
                                                 const RowPlan& plan, const TileMap& from,
                                                 bool exchanged) {
  if (row < 0 || !from || !plan.holds_in(row / plan.tile))
    return this->row(tensor, type, row < 0 ? -1 : first + row, exchanged);
  const std::int64_t d = problem().d, begin = row / plan.tile * plan.tile;
  taken_.assign(static_cast<std::size_t>(d), 0);
  for (std::int64_t col = 0; col < d; ++col) {
    const ElementPlace place = from(row - begin, col);
    const std::int64_t key = begin + place.row;
    const bool in_tile = place.row >= 0 && place.row < plan.tile && place.col >= 0 && place.col < d;
    if (!in_tile || key >= problem().len_kv) continue;
    taken_[static_cast<std::size_t>(col)] =
        this->row(tensor, type, first + key)[static_cast<std::size_t>(place.col)];
  }
  return taken_;
}

const Tensor& PlanInputs::tensor_of(InputTensor input) const {
  return input == InputTensor::q ? inputs_.q : input == InputTensor::k ? inputs_.k : inputs_.v;
}

const std::vector<double>& PlanInputs::row_of(InputTensor input, ElementType type,
                                              std::int64_t row) {
  const Tensor& tensor = tensor_of(input);
  return this->row(tensor, type, row < tensor.size() / tensor.dims.back() ? row : -1);
}

const std::vector<double>& PlanInputs::key_of_term(const RowPlan& plan, const RowPlan::Term& term) {
  if (term.key_is != InputTensor::k) {
    return row_of(term.key_is, plan.k_type, term.key < 0 ? -1 : plan.k_first + term.key);
  }
  return taken_row(inputs_.k, plan.k_type, plan.k_first, term.key, plan, plan.k_from,
                   plan.k_exchanged);
}

const std::vector<double>& PlanInputs::value_of_term(const RowPlan& plan,
                                                     const RowPlan::Term& term) {
  if (term.value_is != InputTensor::v) {
    return row_of(term.value_is, plan.v_type, term.value < 0 ? -1 : plan.v_first + term.value);
  }
  return taken_row(inputs_.v, plan.v_type, plan.v_first, term.value, plan, plan.v_from,
                   plan.v_exchanged);
}

double PlanInputs::product_of(const RowPlan& plan, const std::vector<double>& q,
                              std::int64_t k_row) {
  std::vector<double>& known = products_[plan.q_row];
  if (known.empty()) {
    known.assign(static_cast<std::size_t>(inputs_.k.size() / inputs_.k.dims.back()),
                 std::numeric_limits<double>::quiet_NaN());
  }
  double& product = known[static_cast<std::size_t>(k_row)];
  if (std::isnan(product)) {
    const std::vector<double>& k = row(inputs_.k, plan.k_type, k_row);
    product = 0;
    for (std::size_t i = 0; i < q.size(); ++i) product += q[i] * k[i];
  }
  return product;
}

std::vector<double> PlanInputs::query_of(const RowPlan& plan) {
  if (plan.q_is != InputTensor::q) return row_of(plan.q_is, plan.q_type, plan.q_row);
  std::vector<double> q = row(inputs_.q, plan.q_type, plan.q_row, plan.q_exchanged);
  if (plan.q_kept) std::transform(q.begin(), q.end(), q.begin(), plan.q_kept);
  if (!plan.q_from || plan.q_row < 0) return q;
  const std::int64_t br = info().br, in_tile = plan.query % br;
  for (std::size_t col = 0; col < q.size(); ++col) {
    const ElementPlace place = plan.q_from(in_tile, static_cast<std::int64_t>(col));
    const std::int64_t query = plan.query - in_tile + place.row;
    const bool exists = query < problem().len_q && place.col >= 0 && place.col < problem().d;
    const std::int64_t from = exists ? plan.q_row - plan.query + query : -1;
    q[col] = row(inputs_.q, plan.q_type, from)[exists ? static_cast<std::size_t>(place.col) : 0];
  }
  return q;
}

namespace {

double dot(const RowPlan& plan, const std::vector<double>& q, const std::vector<double>& k) {
  std::vector<double> sums(static_cast<std::size_t>(plan.dot_sums));
  for (std::size_t i = 0; i < q.size(); ++i) {
    double& sum = sums[i % sums.size()];
    sum += plan.depth[i] * q[i] * k[i];
    if (plan.dot_kept) sum = plan.dot_kept(sum);
  }
  double all = 0;
  for (const double sum : sums) all = plan.dot_kept ? plan.dot_kept(all + sum) : all + sum;
  return all;
}

}  // namespace

std::vector<double> PlanInputs::scores_of(const RowPlan& plan) {
  const double scale = plan.scale * scale_of(inputs_.q_scale, plan.q_row, problem().len_q) *
                       scale_of(inputs_.k_scale, plan.k_first, problem().len_kv);
  const std::vector<double> q = query_of(plan);
  const bool as_they_are =
      !plan.dot_kept && !plan.q_kept && plan.q_is == InputTensor::q && plan.q_row >= 0 &&
      !plan.q_from && !plan.k_from && !plan.q_exchanged && !plan.k_exchanged &&
      plan.q_type == inputs_.type() && plan.k_type == inputs_.type() &&
      std::all_of(plan.depth.begin(), plan.depth.end(), [](double count) { return count == 1; });
  std::vector<double> scores;
  scores.reserve(plan.terms.size());
  for (const RowPlan::Term& term : plan.terms) {
    if (term.is_masked) {
      scores.push_back(term.masked_score);
      continue;
    }
    double s = 0;
    if (as_they_are && term.key >= 0 && term.key_is == InputTensor::k) {
      s = product_of(plan, q, plan.k_first + term.key);
    } else {
      s = dot(plan, q, key_of_term(plan, term));
    }
    s *= scale;
    if (plan.tile_scale != 1 && plan.holds_in(std::ssize(scores) / plan.tile)) s *= plan.tile_scale;
    const auto tile = static_cast<std::size_t>(plan.tile);
    if (plan.scores_left != 0 && scores.size() >= tile) {
      s += plan.scores_left * scores[scores.size() - tile];
    }
    if (plan.cap > 0) s = plan.cap * std::tanh(s / plan.cap);
    scores.push_back(plan.score_kept ? plan.score_kept(s) : s);
  }
  return scores;
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
  const double v_scale = scale_of(inputs_.v_scale, plan.v_first, problem().len_kv);
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
  const double ln_l = std::log(l[0] * plan.in_lse);
  row.lse = plan.lse == LseRule::sum               ? l[0]
            : plan.lse == LseRule::maximum_and_sum ? sums.m + l[0]
                                                   : plan.lse_of_m * sums.m + plan.lse_of_l * ln_l;
  if (plan.lse == LseRule::of_both && plan.lse_of_m == 0) row.lse = plan.lse_of_l * ln_l;
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
  for (std::size_t term = 0; term < plan.terms.size(); ++term) {
    const double weight = sums.in_o[term];
    if (weight != 0) {
      const std::vector<double>& v = value_of_term(plan, plan.terms[term]);
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (from[i] < 0) continue;
        const double share = weight * v[static_cast<std::size_t>(from[i])];
        row.o[i] += share;
        row.magnitude[i] += std::abs(share);
      }
    }
    const bool ends = (term + 1) % tile == 0 || term + 1 == plan.terms.size();
    if (plan.o_kept && ends && sums.brought[term / tile] > 0) {
      // As the tile has it, relative to its maximum.
      for (double& o : row.o) {
        o = plan.o_kept(o / sums.brought[term / tile]) * sums.brought[term / tile];
      }
    }
  }
}

}  // namespace lanescope

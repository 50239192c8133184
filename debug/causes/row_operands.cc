// The operands of a plan: rows of the inputs, as the plan reads them, and their scores.
#include <algorithm>
#include <cmath>
#include <limits>

#include "debug/causes/row_plan.h"

namespace lanescope {

PlanInputs::Rows& PlanInputs::rows_of(const Tensor& tensor, ElementType type, bool exchanged) {
  const RowsKey key{&tensor, type, exchanged};
  if (key != last_key_) {
    last_key_ = key;
    last_rows_ = &rows_[key];
  }
  Rows& rows = *last_rows_;
  if (rows.empty()) rows.resize(static_cast<std::size_t>(tensor.size() / tensor.dims.back() + 1));
  return rows;
}

const std::vector<double>& PlanInputs::row(const Tensor& tensor, ElementType type, std::int64_t row,
                                           bool exchanged) {
  Rows& rows = rows_of(tensor, type, exchanged);
  if (row + 1 >= std::ssize(rows)) row = -1;  // two flaws together may lead behind the end
  std::vector<double>& values = row < 0 ? rows.back() : rows[static_cast<std::size_t>(row)];
  if (values.empty()) read_row(tensor, type, row, exchanged, values);
  return values;
}

void PlanInputs::read_row(const Tensor& tensor, ElementType type, std::int64_t row, bool exchanged,
                          std::vector<double>& values) const {
  const std::int64_t d = problem().d;
  values.assign(static_cast<std::size_t>(d), 0);
  const std::int64_t length = tensor.dims.end()[-2], head = row / length;
  for (std::int64_t i = 0; row >= 0 && i < d; ++i) {
    const std::int64_t at =
        exchanged ? (head * d + i) * length + row % length : row * tensor.dims.back() + i;
    values[static_cast<std::size_t>(i)] = value_of(type, tensor.bits(at));
  }
}

double PlanInputs::scale_of(const InputScale& scale, std::int64_t own_head) const {
  const Tensor& scales = scale.of == InputTensor::q   ? inputs_.q_scale
                         : scale.of == InputTensor::k ? inputs_.k_scale
                                                      : inputs_.v_scale;
  const std::int64_t head = scale.head >= 0 ? scale.head : own_head;
  if (!inputs_.scaled() || head < 0 || head >= scales.size()) return 1;
  return std::pow(scales.at(head), scale.power);
}

double PlanInputs::q_scale_of(const RowPlan& plan) const {
  return scale_of(plan.q_scale, plan.q_row < 0 ? -1 : plan.q_row / problem().len_q);
}
double PlanInputs::k_scale_of(const RowPlan& plan) const {
  return scale_of(plan.k_scale, plan.k_first < 0 ? -1 : plan.k_first / problem().len_kv);
}
double PlanInputs::v_scale_of(const RowPlan& plan) const {
  return scale_of(plan.v_scale, plan.v_first < 0 ? -1 : plan.v_first / problem().len_kv);
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

const std::vector<double>& PlanInputs::kept_row(const std::vector<double>& row,
                                                const std::function<double(double)>& kept) {
  if (!kept) return row;
  kept_ = row;
  std::transform(kept_.begin(), kept_.end(), kept_.begin(), kept);
  return kept_;
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
  return kept_row(taken_row(inputs_.k, plan.k_type, plan.k_first, term.key, plan, plan.k_from,
                            plan.k_exchanged),
                  plan.k_kept);
}

const std::vector<double>& PlanInputs::value_of_term(const RowPlan& plan,
                                                     const RowPlan::Term& term) {
  if (term.value_is != InputTensor::v) {
    return row_of(term.value_is, plan.v_type, term.value < 0 ? -1 : plan.v_first + term.value);
  }
  return kept_row(taken_row(inputs_.v, plan.v_type, plan.v_first, term.value, plan, plan.v_from,
                            plan.v_exchanged),
                  plan.v_kept);
}

double PlanInputs::product_of(const RowPlan& plan, std::int64_t q_row, std::int64_t k_row) {
  std::vector<double>& known = products_[q_row];
  if (known.empty()) {
    known.assign(static_cast<std::size_t>(inputs_.k.size() / inputs_.k.dims.back()),
                 std::numeric_limits<double>::quiet_NaN());
  }
  if (k_row < 0 || k_row >= std::ssize(known)) return std::numeric_limits<double>::quiet_NaN();
  double& product = known[static_cast<std::size_t>(k_row)];
  if (std::isnan(product)) {
    const std::vector<double>& q = row(inputs_.q, plan.q_type, q_row);
    const std::vector<double>& k = row(inputs_.k, plan.k_type, k_row);
    product = 0;
    for (std::size_t i = 0; i < q.size(); ++i) product += q[i] * k[i];
  }
  return product;
}

double PlanInputs::product_of_term(const RowPlan& plan, const RowPlan::Term& term) {
  const std::int64_t size = plan.score_piece;
  if (size == 0) return product_of(plan, plan.q_row, plan.k_first + term.key);
  const std::int64_t query = plan.query / size * size + term.key % size,
                     key = term.key / size * size + plan.query % size;
  if (query >= problem().len_q || key >= problem().len_kv) return 0;
  return product_of(plan, plan.q_row - plan.query + query, plan.k_first + key);
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
  double all = 0;
  if (plan.dot_sums == 1 && !plan.dot_kept) {
    for (std::size_t i = 0; i < q.size(); ++i) all += plan.depth[i] * q[i] * k[i];
    return all;
  }
  std::vector<double> sums(static_cast<std::size_t>(plan.dot_sums));
  for (std::size_t i = 0, turn = 0; i < q.size(); ++i) {
    double& sum = sums[turn];
    sum += plan.depth[i] * q[i] * k[i];
    if (plan.dot_kept) sum = plan.dot_kept(sum);
    if (++turn == sums.size()) turn = 0;
  }
  for (const double sum : sums) all = plan.dot_kept ? plan.dot_kept(all + sum) : all + sum;
  return all;
}

}  // namespace

namespace {

/// Each with those added whose numbers differ from its own in `bits` alone.
std::vector<double> added_over(std::int64_t bits, const std::vector<double>& scores) {
  std::vector<double> sums = scores;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::int64_t other = bits; other > 0; other = (other - 1) & bits) {
      const std::size_t at = i ^ static_cast<std::size_t>(other);
      if (at < scores.size() && std::isfinite(scores[at])) sums[i] += scores[at];
    }
  }
  return sums;
}

}  // namespace

std::vector<double> PlanInputs::scores_of(const RowPlan& plan) {
  const double scale = plan.scale * q_scale_of(plan) * k_scale_of(plan);
  const bool as_they_are =
      !plan.dot_kept && !plan.q_kept && !plan.k_kept && plan.q_is == InputTensor::q &&
      plan.q_row >= 0 && !plan.q_from && !plan.q_is_weights && !plan.k_from && !plan.q_exchanged &&
      !plan.k_exchanged && plan.q_type == inputs_.type() && plan.k_type == inputs_.type() &&
      std::all_of(plan.depth.begin(), plan.depth.end(), [](double count) { return count == 1; });
  const bool are_scaled_alone = plan.tile_scale == 1 && plan.scores_left == 0 && plan.cap == 0 &&
                                plan.slope == 0 && !plan.score_kept;
  std::vector<double> q;  // where it is asked for
  std::vector<double> scores;
  scores.reserve(plan.terms.size());
  for (const RowPlan::Term& term : plan.terms) {
    if (term.is_masked) {
      scores.push_back(term.masked_score);
      continue;
    }
    double s = 0;
    if (as_they_are && term.key >= 0 && term.key_is == InputTensor::k) {
      s = product_of_term(plan, term);
    } else {
      const bool begins = scores.size() % static_cast<std::size_t>(plan.tile) == 0;
      if (q.empty()) q = query_of(plan);
      if (plan.q_is_weights && begins && !scores.empty()) q = weights_over(plan, q, scores);
      s = dot(plan, q, key_of_term(plan, term));
    }
    s *= scale;
    scores.push_back(are_scaled_alone ? s : changed_score(plan, term, s, scores));
  }
  return plan.score_keys == 0 ? scores : added_over(plan.score_keys, scores);
}

/// Q with the weights of the last tile of `scores` in its first columns.
std::vector<double> PlanInputs::weights_over(const RowPlan& plan, std::vector<double> q,
                                             const std::vector<double>& scores) const {
  const double m = *std::max_element(scores.begin(), scores.end());
  const auto tile = static_cast<std::size_t>(plan.tile);
  for (std::size_t i = 0; i < std::min(tile, q.size()); ++i) {
    const double p = std::exp(scores[scores.size() - tile + i] - m);
    q[i] = value_of(plan.p_type, round_to(plan.p_type, p));
  }
  return q;
}

double PlanInputs::changed_score(const RowPlan& plan, const RowPlan::Term& term, double s,
                                 const std::vector<double>& before) const {
  if (plan.tile_scale != 1 && plan.holds_in(std::ssize(before) / plan.tile)) s *= plan.tile_scale;
  const auto tile = static_cast<std::size_t>(plan.tile);
  if (plan.scores_left != 0 && before.size() >= tile) {
    s += plan.scores_left * before[before.size() - tile];
  }
  if (plan.cap > 0) s = plan.cap * std::tanh(s / plan.cap);
  if (plan.slope != 0) {
    const std::int64_t own = plan.query + problem().len_kv - problem().len_q;
    const auto off = static_cast<double>(term.key - own);
    s += plan.slope * (plan.slope_is_even ? -std::abs(off) : off);
  }
  return plan.score_kept ? plan.score_kept(s) : s;
}

}  // namespace lanescope

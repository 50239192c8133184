#include "debug/causes/row_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/array.h"
#include "reference/elementary.h"
#include "reference/rescale_rule.h"

namespace lanescope {
namespace {

using reference::infinity;

/// exp(−∞ − (−∞)) is a weight of a tile without a visible key.
double weight(double from, double to) { return from == -infinity ? 0 : std::exp(from - to); }

}  // namespace

PlanInputs::PlanInputs(const Dump& dump) : dump_(dump), inputs_(inputs_of(dump)) {}

const std::vector<double>& PlanInputs::row(const Tensor& tensor, ElementType type,
                                           std::int64_t row) {
  std::vector<double>& values = rows_[{&tensor, type, row}];
  if (!values.empty()) return values;
  const std::int64_t d = problem().d;
  values.assign(static_cast<std::size_t>(d), 0);
  for (std::int64_t i = 0; row >= 0 && i < d; ++i) {
    values[static_cast<std::size_t>(i)] = value_of(type, tensor.bits(row * tensor.dims.back() + i));
  }
  return values;
}

double PlanInputs::scale_of(const Tensor& scale, std::int64_t first_row,
                            std::int64_t rows_per_head) const {
  return inputs_.scaled() && first_row >= 0 ? scale.at(first_row / rows_per_head) : 1;
}

RowPlan PlanInputs::right_plan(std::int64_t batch, std::int64_t head, std::int64_t query) const {
  const Problem& problem = this->problem();
  RowPlan plan;
  plan.batch = batch;
  plan.head = head;
  plan.query = query;
  // A row beyond the end is one of zeros.
  plan.q_row = query < problem.len_q ? (batch * problem.heads + head) * problem.len_q + query : -1;
  plan.k_first = plan.v_first = (batch * problem.heads_kv + problem.kv_head(head)) * problem.len_kv;
  plan.q_type = plan.k_type = plan.v_type = plan.o_type = inputs_.type();
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

/// What the tiles leave.
struct PlanInputs::Sums {
  double m = -infinity;
  double largest_score = 0;
  std::vector<double> in_o, in_l;  ///< what each term adds, brought to m

  /// Weighs the quotients of parts of `size` terms by another rule than their l.
  void combine_by(Combine rule, std::size_t size, const std::vector<double>& scores) {
    double total = 0, weights = 0;
    std::vector<double> factors;
    for (std::size_t first = 0; first < in_o.size(); first += size) {
      const std::size_t end = std::min(first + size, in_o.size());
      const double peak = *std::max_element(&scores[first], &scores[first] + (end - first));
      double l = 0, own = 0;
      for (std::size_t i = first; i < end; ++i) {
        l += in_l[i];
        own += weight(scores[i], peak);
      }
      const double by = rule == Combine::mean         ? 1
                        : rule == Combine::by_maximum ? weight(peak, m)
                                                      : own;
      total += l;
      weights += by;
      factors.push_back(l == 0 ? 0 : by / l);
    }
    for (std::size_t i = 0; i < in_o.size(); ++i) in_o[i] *= factors[i / size] * total / weights;
  }
};

std::vector<double> PlanInputs::scores_of(const RowPlan& plan) {
  const double scale = plan.scale * scale_of(inputs_.q_scale, plan.q_row, problem().len_q) *
                       scale_of(inputs_.k_scale, plan.k_first, problem().len_kv);
  const std::vector<double> q = row(inputs_.q, plan.q_type, plan.q_row);
  std::vector<double> scores;
  scores.reserve(plan.terms.size());
  for (const RowPlan::Term& term : plan.terms) {
    if (term.is_masked) {
      scores.push_back(term.masked_score);
      continue;
    }
    const std::vector<double>& k =
        row(inputs_.k, plan.k_type, term.key < 0 ? -1 : plan.k_first + term.key);
    double s = 0;
    for (std::size_t i = 0; i < q.size(); ++i) s += plan.depth[i] * q[i] * k[i];
    s *= scale;
    scores.push_back(plan.cap > 0 ? plan.cap * std::tanh(s / plan.cap) : s);
  }
  return scores;
}

PlanInputs::Sums PlanInputs::sums_of(const RowPlan& plan) {
  const std::vector<double> scores = scores_of(plan);
  const auto tile_of = [&](std::size_t term) {
    // A term that stands for no key of the inputs lies behind the last.
    return static_cast<std::int64_t>(term) / plan.tile;
  };
  const std::size_t tiles = static_cast<std::size_t>(
      std::max(plan.tiles, scores.empty() ? 0 : tile_of(scores.size() - 1) + 1));
  // Tiles count as they are visited from here on.
  const auto visit = [&](std::size_t tile) { return plan.downwards ? tiles - 1 - tile : tile; };
  const auto visit_of = [&](std::size_t term) {
    return visit(static_cast<std::size_t>(tile_of(term)));
  };
  Sums sums;
  // peak: of the tile; running: up to it.
  std::vector<double> peak(tiles, -infinity), running(tiles, -infinity);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    sums.largest_score = std::max(sums.largest_score, std::abs(scores[i]));
    double& own = peak[visit_of(i)];
    own = std::max(own, scores[i]);
  }
  // The maximum follows from one tile to the next as the kernel declares it.
  const auto followed = [&](double m, double top, const std::vector<double>& row,
                            std::size_t tile) {
    const std::size_t width = static_cast<std::size_t>(plan.tile);
    const std::size_t first = std::min(visit(tile) * width, row.size());
    const std::size_t keys = std::min(width, row.size() - first);
    const auto score = [&](reference::Index key) {
      return row[first + static_cast<std::size_t>(key)] * reference::log2_e;
    };
    return reference::rises(info().rescale, m * reference::log2_e, top * reference::log2_e,
                            static_cast<reference::Index>(keys), score)
               ? std::max(m, top)
               : m;
  };
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    running[tile] = sums.m = followed(sums.m, peak[tile], scores, tile);
  }
  const auto brought = [&](Rescale rule, double score, std::size_t tile) {
    const double now = running[tile], before = tile > 0 ? running[tile - 1] : -infinity;
    switch (rule) {
      case Rescale::none:
        return weight(score, now);
      case Rescale::twice:
        return weight(score, now) * std::exp(2 * (now - sums.m));
      case Rescale::base_two:
        return weight(score, now) * std::exp2(now - sums.m);
      case Rescale::base_e:
        return weight(score, now) * std::exp((now - sums.m) * reference::log2_e);
      case Rescale::root:
        return weight(score, now) * std::exp((now - sums.m) / 2);
      case Rescale::all:
        return weight(score, now) * weight(before, sums.m);
      case Rescale::restart:
        return tile + 1 == tiles ? weight(score, sums.m) : 0;
      case Rescale::own_peak:
        return weight(score, peak[tile]) * std::exp(now - sums.m);
      case Rescale::right:
        break;
    }
    return weight(score, sums.m);
  };
  std::vector<double> other;  // running maxima of the row whose alpha o takes
  if (plan.alpha_row > 0) {
    const std::int64_t in_tile = plan.query % info().br;
    const std::int64_t query = plan.query - in_tile + (in_tile ^ plan.alpha_row);
    RowPlan neighbour = right_plan(plan.batch, plan.head, query);
    neighbour.tile = plan.tile;
    const std::vector<double> theirs = scores_of(neighbour);
    other.assign(tiles, -infinity);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      if (static_cast<std::size_t>(tile_of(i)) >= tiles) continue;
      const std::size_t tile = visit_of(i);
      other[tile] = std::max(other[tile], theirs[i]);
    }
    for (std::size_t tile = 1; tile < tiles; ++tile) {
      other[tile] = followed(other[tile - 1], other[tile], theirs, tile);
    }
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const RowPlan::Term& term = plan.terms[i];
    const std::size_t tile = visit_of(i);
    double in_o = brought(plan.o_rescale, scores[i], tile);
    if (plan.alpha_row > 0) {
      in_o = weight(scores[i], running[tile]) * weight(other[tile], other[tiles - 1]);
    }
    sums.in_o.push_back(term.in_o * in_o);
    sums.in_l.push_back(term.in_l * brought(plan.l_rescale, scores[i], tile));
  }
  if (plan.combine != Combine::right) {
    sums.combine_by(plan.combine, static_cast<std::size_t>(plan.part_tiles * plan.tile), scores);
  }
  return sums;
}

PlannedRow PlanInputs::carry_out(const RowPlan& plan) {
  if (plan.moved_from) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    const auto [batch, head, query] = *plan.moved_from;
    if (query < problem().len_q) return carry_out(right_plan(batch, head, query));
    return {std::vector<double>(plan.depth.size(), none), std::vector<double>(plan.depth.size(), 0),
            none, 0};
  }
  if (!plan.lanes.whole()) return carry_out_by_lanes(plan);
  const Sums sums = sums_of(plan);
  const std::size_t d = static_cast<std::size_t>(problem().d);
  PlannedRow row{std::vector<double>(d), std::vector<double>(d), 0, sums.largest_score};
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
  if (plan.sink > 0) {
    for (double& lane : l) lane += plan.sink * std::exp(-sums.m);
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
  for (std::size_t i = 0; i < plan.terms.size(); ++i) {
    if (sums.in_o[i] == 0) continue;
    const std::int64_t value = plan.terms[i].value;
    const std::vector<double>& v =
        this->row(inputs_.v, plan.v_type, value < 0 ? -1 : plan.v_first + value);
    for (std::size_t col = 0; col < d; ++col) {
      row.o[col] += sums.in_o[i] * v[col];
      row.magnitude[col] += std::abs(sums.in_o[i] * v[col]);
    }
  }
  const double v_scale = scale_of(inputs_.v_scale, plan.v_first, problem().len_kv);
  for (std::size_t col = 0; col < d; ++col) {
    const double own = divisor[col / 2 % 4];
    // A row that takes no key is 0.
    const double factor = v_scale * (plan.terms.empty()                         ? 0
                                     : plan.output == OutputRule::undivided     ? 1
                                     : plan.output == OutputRule::divided_twice ? 1 / (own * own)
                                                                                : 1 / own);
    row.o[col] *= factor;
    row.magnitude[col] *= std::abs(factor);
    if (plan.o_type != inputs_.type()) {
      row.o[col] = value_of(inputs_.type(), round_to(plan.o_type, row.o[col]));
    }
  }
  const double ln_l = std::log(l[0] * plan.in_lse), ln_2 = std::log(2.0);
  switch (plan.lse) {
    case LseRule::right:
      row.lse = sums.m + ln_l;
      break;
    case LseRule::base_two:
      row.lse = (sums.m + ln_l) / ln_2;
      break;
    case LseRule::maximum_base_two:
      row.lse = sums.m / ln_2 + ln_l;
      break;
    case LseRule::sum_base_two:
      row.lse = sums.m + ln_l / ln_2;
      break;
    case LseRule::no_maximum:
      row.lse = ln_l;
      break;
    case LseRule::no_sum:
      row.lse = sums.m;
      break;
    case LseRule::unscaled_maximum:
      row.lse = sums.m / plan.scale + ln_l;
      break;
    case LseRule::plain_sum:
      row.lse = l[0];
      break;
  }
  return row;
}

}  // namespace lanescope

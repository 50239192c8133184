#include "debug/causes/row_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "reference/rescale_rule.h"

namespace lanescope {
namespace {

using reference::infinity;

/// What a sum has of before is multiplied by, at a visit.
double carried(Rescale rule, double power, double alpha, double before, double next) {
  switch (rule) {
    case Rescale::power:
      return power == 0 ? 1 : std::pow(alpha, power);
    case Rescale::doubled:
      return 2 * alpha;
    case Rescale::fourfold:
      return 4 * alpha;
    case Rescale::swapped:
      return 1;
    case Rescale::restart:
      return 0;
    case Rescale::late:
      return before;
    case Rescale::early:
      return next;
    default:
      return alpha;
  }
}

/// What a score of a visit adds; `share` relative to the running maximum.
double added(Rescale rule, double share, double score, double peak, double alpha) {
  switch (rule) {
    case Rescale::all:
    case Rescale::swapped:
      return share * alpha;
    case Rescale::own_peak:
      return weight(score, peak);
    default:
      return share;
  }
}

}  // namespace

std::vector<PlanInputs::Sums::Part> PlanInputs::Sums::parts(
    const PartKeys& keys, const std::vector<double>& scores) const {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < in_l.size(); ++i) {
    parts.resize(std::max(parts.size(), keys.of(i) + 1));
    Part& part = parts[keys.of(i)];
    part.l += in_l[i];
    if (!scores.empty()) part.peak = std::max(part.peak, scores[i]);
  }
  return parts;
}

void PlanInputs::Sums::combine_by(Combine rule, const PartKeys& keys,
                                  const std::vector<double>& scores) {
  const std::vector<Part> parts = this->parts(keys, scores);
  std::vector<double> own(parts.size());  // l at the part's own maximum
  for (std::size_t i = 0; i < in_o.size(); ++i) {
    own[keys.of(i)] += weight(scores[i], parts[keys.of(i)].peak);
  }
  double total = 0, weights = 0, largest = 0;
  std::vector<double> factors;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t other = rule == Combine::of_pair ? i ^ 1 : (i + 1) % parts.size();
    const auto by = [&]() -> double {
      switch (rule) {
        case Combine::mean:
          return 1;
        case Combine::by_maximum:
          return weight(parts[i].peak, m);
        case Combine::by_sum:
          return own[i];
        case Combine::of_pair:
        case Combine::of_next:
          return other < parts.size() ? parts[other].l : 0;
        case Combine::undivided:
        case Combine::right:
          break;
      }
      return parts[i].l;
    };
    total += parts[i].l;
    largest = std::max(largest, parts[i].l);
    weights += by();
    factors.push_back(parts[i].l == 0 ? 0 : by() / parts[i].l);
  }
  if (rule == Combine::undivided) weights = largest;
  for (std::size_t i = 0; i < in_o.size(); ++i) in_o[i] *= factors[keys.of(i)] * total / weights;
}

void PlanInputs::Sums::bring_by(const PartPowers& powers, const PartKeys& keys,
                                const std::vector<double>& scores) {
  std::vector<std::pair<double, double>> factors;  // of O and of l
  for (const auto& [l, peak] : parts(keys, scores)) {
    if (peak == -infinity) {
      factors.emplace_back(1, 1);
      continue;
    }
    const double own_l = l / weight(peak, m);
    factors.emplace_back(
        std::exp((powers.in_o - 1) * (peak - m)) * std::pow(own_l, powers.sums_in_o),
        std::exp((powers.in_l - 1) * (peak - m)));
  }
  for (std::size_t i = 0; i < in_o.size(); ++i) {
    in_o[i] *= factors[keys.of(i)].first;
    in_l[i] *= factors[keys.of(i)].second;
  }
}

void PlanInputs::Sums::reduce_by(const PartLanes& lanes, const PartKeys& keys) {
  std::vector<double> l;
  for (const Part& part : parts(keys, {})) l.push_back(part.l);
  const auto meet = [](int bits, std::size_t lane, std::size_t other) {
    return ((lane ^ other) & ~static_cast<std::size_t>(bits)) == 0;
  };
  // The maximum that each lane goes by, and the sum that it divides by.
  std::vector<double> weights(l.size()), peaks(l.size());
  for (std::size_t lane = 0; lane < l.size(); ++lane) {
    for (std::size_t other = 0; other < l.size(); ++other) {
      if (meet(lanes.of_maximum, lane, other)) peaks[lane] = std::max(peaks[lane], l[other]);
    }
    weights[lane] = peaks[lane] > 0 ? l[lane] / peaks[lane] : 0;
  }
  double of_first = 0;
  std::vector<double> shares(l.size());
  for (std::size_t lane = l.size(); lane-- > 0;) {
    double total = 0;
    for (std::size_t other = 0; other < l.size(); ++other) {
      if (meet(lanes.of_sum, lane, other)) total += weights[other];
    }
    // O is divided by the l of lane 0, which the log-sum-exp has, too.
    of_first = total * peaks[0];
    shares[lane] = total > 0 && l[lane] > 0 ? weights[lane] / total / l[lane] : 0;
  }
  for (std::size_t i = 0; i < in_o.size(); ++i) in_o[i] *= shares[keys.of(i)];
  for (double& term : in_o) term *= of_first;
  std::fill(in_l.begin(), in_l.end(), 0);
  l_besides = of_first;
}

PlanInputs::Walk PlanInputs::walk(const RowPlan& plan) {
  Walk walk;
  walk.scores = scores_of(plan);
  const std::vector<double>& scores = walk.scores;
  walk.width = static_cast<std::size_t>(plan.tile);
  walk.downwards = plan.downwards;
  // A term that stands for no key of the inputs lies behind the last.
  walk.tiles = std::max(static_cast<std::size_t>(plan.tiles),
                        scores.empty() ? 0 : (scores.size() - 1) / walk.width + 1);
  walk.peak.assign(walk.tiles, -infinity);
  walk.running.assign(walk.tiles, -infinity);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isfinite(scores[i])) {
      walk.largest_score = std::max(walk.largest_score, std::abs(scores[i]));
    }
    double& own = walk.peak[walk.tile_of(i)];
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
  for (std::size_t i = 0; i < sums.in_l.size(); ++i) of_tile[own.tile_of(i)] += sums.in_l[i];
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
    const double l = then(divisors[own.tile_of(i)], own.tile_of(i));
    if (sums.in_o[i] != 0) sums.in_o[i] /= l;
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
  const std::vector<double>& scores = own.scores;
  const std::int64_t in_tile = plan.query % info().br;
  Sums sums;
  sums.m = own.m;
  sums.largest_score = own.largest_score;
  std::vector<double> alphas(own.tiles);
  for (std::size_t visited = 0; visited < own.tiles; ++visited)
    alphas[visited] = own.alpha(visited);
  const auto rule_at = [&](Rescale rule, std::size_t visited) {
    return plan.holds_in(static_cast<std::int64_t>(own.visit(visited))) ? rule : Rescale::right;
  };
  // By what a visit's share is brought to the last one's maximum.
  const auto carried_by = [&](Rescale rule) {
    std::vector<double> factors(own.tiles, 1);
    for (std::size_t visited = own.tiles; visited-- > 1;) {
      const double next = visited + 1 < own.tiles ? alphas[visited + 1] : 1;
      // What comes from before the first tile is nothing, whatever alpha is.
      const double before = visited > 1 ? alphas[visited - 1] : 1;
      factors[visited - 1] = factors[visited] * carried(rule_at(rule, visited), plan.alpha_power,
                                                        alphas[visited], before, next);
    }
    return factors;
  };
  const std::vector<double> o_carried = carried_by(plan.o_rescale),
                            l_carried = carried_by(plan.l_rescale);
  const auto by = [&](Rescale rule, const std::vector<double>& factors, double share, double score,
                      std::size_t visited) {
    const double sum =
        added(rule_at(rule, visited), share, score, own.peak[visited], alphas[visited]);
    return sum == 0 ? 0 : sum * factors[visited];
  };
  std::map<std::int64_t, Walk> others;  // by row of the block
  const auto row = [&](std::int64_t number) -> const Walk& {
    const auto known = others.find(number);
    if (known != others.end()) return known->second;
    return others.emplace(number, walk_of_row(plan, number)).first->second;
  };
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const RowPlan::Term& term = plan.terms[i];
    const std::size_t visited = own.tile_of(i);
    const double share = weight(scores[i], own.running[visited]);
    double in_o = by(plan.o_rescale, o_carried, share, scores[i], visited);
    if (plan.alpha_row > 0) {
      const Walk& other = row(in_tile ^ plan.alpha_row);
      in_o = weight(scores[i], own.running[visited]) *
             weight(other.running[visited], other.running[own.tiles - 1]);
    }
    if (plan.p_from && plan.holds_in(static_cast<std::int64_t>(own.visit(visited)))) {
      const ElementPlace from = plan.p_from(in_tile, static_cast<std::int64_t>(i % own.width));
      const Walk& other = row(from.row);
      const std::size_t key = i / own.width * own.width + static_cast<std::size_t>(from.col);
      in_o = key < other.scores.size() && from.col >= 0
                 ? weight(other.scores[key], other.running[visited]) *
                       weight(own.running[visited], own.m)
                 : 0;
    }
    if (plan.p_type != inputs_.type()) {
      const double p = weight(scores[i], own.running[visited]);
      in_o = value_of(plan.v_type, round_to(plan.p_type, p)) * weight(own.running[visited], own.m);
    }
    if (plan.p_kept) {
      in_o = plan.p_kept(share) * weight(own.running[visited], own.m);
    }
    sums.in_o.push_back(term.in_o * in_o);
    sums.in_l.push_back(
        term.in_l *
        (plan.sums_kept ? in_o : by(plan.l_rescale, l_carried, share, scores[i], visited)));
  }
  for (std::int64_t bits = plan.sum_rows; bits > 0; bits = (bits - 1) & plan.sum_rows) {
    if ((in_tile ^ bits) >= info().br) continue;
    const Walk& other = row(in_tile ^ bits);
    for (std::size_t i = 0; i < other.scores.size(); ++i) {
      const std::size_t visited = other.tile_of(i);
      if (visited >= own.tiles) continue;
      sums.l_besides +=
          weight(other.scores[i], other.running[visited]) * weight(own.running[visited], own.m);
    }
  }
  if (plan.sums_columns) {
    std::fill(sums.in_l.begin(), sums.in_l.end(), 0);
    for (std::int64_t number = 0; number < info().br; ++number) {
      const Walk& other = row(number);
      for (std::size_t visited = 0; visited < own.tiles; ++visited) {
        const std::size_t key = own.visit(visited) * own.width + static_cast<std::size_t>(in_tile);
        if (key >= other.scores.size()) continue;
        sums.l_besides +=
            weight(other.scores[key], other.running[visited]) * weight(own.running[visited], own.m);
      }
    }
  }
  for (std::size_t tile = 0; tile < own.tiles; ++tile) {
    sums.brought.push_back(weight(own.running[own.visit(tile)], own.m));
  }
  divide(plan, own, sums);
  if (plan.combine != Combine::right) {
    sums.combine_by(plan.combine, plan.part_keys, scores);
  }
  if (!plan.part_lanes.right()) {
    sums.reduce_by(plan.part_lanes, plan.part_keys);
  }
  if (!plan.part_powers.right()) {
    sums.bring_by(plan.part_powers, plan.part_keys, scores);
  }
  return sums;
}

}  // namespace lanescope

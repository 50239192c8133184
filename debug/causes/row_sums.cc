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
double carried(Rescale rule, double power, double alpha, double before, double next,
               double to_peak) {
  switch (rule) {
    case Rescale::power:
    case Rescale::in_parts:
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
    case Rescale::to_peak:
      return to_peak;
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
      factors[visited - 1] =
          factors[visited] * carried(rule_at(rule, visited), plan.alpha_power, alphas[visited],
                                     before, next, weight(own.before(visited), own.peak[visited]));
    }
    return factors;
  };
  const std::vector<double> o_carried = carried_by(plan.o_rescale),
                            l_carried = carried_by(plan.l_rescale);
  // The rules of each visit.
  std::vector<Rescale> o_rules, l_rules;
  for (std::size_t visited = 0; visited < own.tiles; ++visited) {
    o_rules.push_back(rule_at(plan.o_rescale, visited));
    l_rules.push_back(rule_at(plan.l_rescale, visited));
  }
  const auto by = [&](const std::vector<Rescale>& rules, const std::vector<double>& factors,
                      double share, std::size_t term) {
    const std::size_t visited = own.tile_of[term];
    double sum = added(rules[visited], share, scores[term], own.peak[visited], alphas[visited]);
    if (rules[visited] == Rescale::in_parts) {
      const auto parts = static_cast<std::size_t>(plan.alpha_power);
      const std::size_t part = term % own.width * parts / own.width;
      sum *= std::pow(alphas[visited], static_cast<double>(parts - 1 - part));
    }
    return sum == 0 ? 0 : sum * factors[visited];
  };
  std::map<std::int64_t, Walk> others;  // by row of the block
  const auto row = [&](std::int64_t number) -> const Walk& {
    const auto known = others.find(number);
    if (known != others.end()) return known->second;
    return others.emplace(number, walk_of_row(plan, number)).first->second;
  };
  sums.in_o.reserve(scores.size());
  sums.in_l.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const RowPlan::Term& term = plan.terms[i];
    const std::size_t visited = own.tile_of[i];
    const double one = weight(scores[i], own.running[visited]);
    const double share = plan.exponent == 1 ? one : std::pow(one, plan.exponent);
    double in_o = by(o_rules, o_carried, share, i);
    if (plan.alpha_row > 0) {
      const Walk& other = row(in_tile ^ plan.alpha_row);
      in_o = weight(scores[i], own.running[visited]) *
             weight(other.running_at(visited), other.running_at(own.tiles - 1));
    }
    if (plan.p_from && plan.holds_in(static_cast<std::int64_t>(own.visit(visited)))) {
      const ElementPlace from = plan.p_from(in_tile, static_cast<std::int64_t>(i % own.width));
      const Walk& other = row(from.row);
      const std::size_t key = i / own.width * own.width + static_cast<std::size_t>(from.col);
      in_o = key < other.scores.size() && from.col >= 0
                 ? weight(other.scores[key], other.running_at(visited)) *
                       weight(own.running[visited], own.m)
                 : 0;
    }
    double in_l = plan.sums_kept ? 0 : by(l_rules, l_carried, share, i);
    if (plan.alpha_row_of_l > 0) {
      const Walk& other = row(in_tile ^ plan.alpha_row_of_l);
      in_l = weight(scores[i], own.running[visited]) *
             weight(other.running_at(visited), other.running_at(own.tiles - 1));
    }
    if (plan.by_key != ByKey::nothing) {
      const Walk& other = row(static_cast<std::int64_t>(i % own.width) % info().br);
      const double brought = weight(own.running[visited], own.m);
      if (plan.by_key == ByKey::maximum) {
        in_o = in_l = std::exp(scores[i] - other.running_at(visited)) * brought;
      } else {
        in_o /= other.whole_sum();
      }
    }
    if (plan.p_type != inputs_.type()) {
      const double p = weight(scores[i], own.running[visited]);
      in_o = value_of(plan.v_type, round_to(plan.p_type, p)) * weight(own.running[visited], own.m);
    }
    if (plan.p_kept) {
      in_o = plan.p_kept(share) * weight(own.running[visited], own.m);
    }
    sums.in_o.push_back(term.in_o * in_o);
    sums.in_l.push_back(term.in_l * (plan.sums_kept ? in_o : in_l));
  }
  for (std::int64_t bits = plan.sum_rows; bits > 0; bits = (bits - 1) & plan.sum_rows) {
    if ((in_tile ^ bits) >= info().br) continue;
    const Walk& other = row(in_tile ^ bits);
    for (std::size_t i = 0; i < other.scores.size(); ++i) {
      const std::size_t visited = other.tile_of[i];
      if (visited >= own.tiles) continue;
      if (plan.sums_rows_at_end) {
        sums.l_besides += plan.sum_rows_times * weight(other.scores[i], other.m);
        continue;
      }
      sums.l_besides += plan.sum_rows_times * weight(other.scores[i], other.running_at(visited)) *
                        weight(own.running[visited], own.m);
    }
  }
  if (plan.sums_columns) {
    std::fill(sums.in_l.begin(), sums.in_l.end(), 0);
    for (std::int64_t number = 0; number < info().br; ++number) {
      const Walk& other = row(number);
      for (std::size_t visited = 0; visited < own.tiles; ++visited) {
        const std::size_t key = own.visit(visited) * own.width + static_cast<std::size_t>(in_tile);
        if (key >= other.scores.size()) continue;
        sums.l_besides += weight(other.scores[key], other.running_at(visited)) *
                          weight(own.running[visited], own.m);
      }
    }
  }
  for (std::size_t tile = 0; tile < own.tiles; ++tile) {
    sums.brought.push_back(weight(own.running[own.visit(tile)], own.m));
  }
  divide(plan, own, sums);
  if (!plan.part_rules.right()) sums.weigh_apart(plan, scores);
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

// Parts of a row's keys that blocks of their own take, and how their results are put together.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "debug/causes/row_sums.h"

namespace lanescope {

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

double PlanInputs::Sums::largest_part(const PartKeys& keys) const {
  return std::log(std::ranges::max(parts(keys, {}), {}, &Part::l).l);
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
    if (peak == -reference::infinity || factors.size() < powers.first) {
      factors.emplace_back(1, 1);
      continue;
    }
    const double own_l = l / weight(peak, m);
    factors.emplace_back(
        std::exp((powers.in_o - 1) * (peak - m)) * std::pow(own_l, powers.sums_in_o),
        std::exp((powers.in_l - 1) * (peak - m)) * std::pow(own_l, powers.sums_in_l));
  }
  for (std::size_t i = 0; i < in_o.size(); ++i) {
    in_o[i] *= factors[keys.of(i)].first;
    in_l[i] *= factors[keys.of(i)].second;
  }
}

void PlanInputs::Sums::weigh_apart(const RowPlan& plan, const std::vector<double>& scores) {
  const auto width = static_cast<std::size_t>(plan.tile);
  std::vector<double> running(scores.size());  // the part's maximum up to the term's tile
  std::vector<double> alpha(scores.size());    // the tile's
  std::vector<double> peaks;
  for (std::size_t first = 0; first < scores.size(); first += width) {
    const std::size_t end = std::min(first + width, scores.size());
    const std::vector<double> before = peaks;
    for (std::size_t i = first; i < end; ++i) {
      const std::size_t part = plan.part_keys.of(i);
      if (part >= peaks.size()) peaks.resize(part + 1, -reference::infinity);
      peaks[part] = std::max(peaks[part], scores[i]);
    }
    for (std::size_t i = first; i < end; ++i) {
      const std::size_t part = plan.part_keys.of(i);
      running[i] = peaks[part];
      alpha[i] = part < before.size() ? weight(before[part], peaks[part]) : 0;
    }
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double peak = peaks[plan.part_keys.of(i)], rise = running[i] - peak;
    const double p = std::pow(weight(scores[i], running[i]), plan.part_rules.p) * weight(peak, m);
    const auto brought = [&](double power) { return p == 0 ? 0 : p * std::exp(power * rise); };
    in_o[i] = plan.terms[i].in_o * brought(plan.part_rules.alpha_in_o);
    in_l[i] = plan.terms[i].in_l * brought(plan.part_rules.alpha_in_l);
    if (plan.part_rules.share_in_o) in_o[i] *= alpha[i];
    if (plan.part_rules.share_in_l) in_l[i] *= alpha[i];
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

PlannedRow PlanInputs::carry_out_by_places(const RowPlan& plan,
                                           const std::vector<std::int64_t>& columns) {
  const Problem& p = problem();
  const PartPlaces& places = plan.part_places;
  const auto part_of = [&](std::int64_t row, std::size_t part) {
    RowPlan own = right_plan(row / p.len_q / p.heads, row / p.len_q % p.heads, row % p.len_q);
    std::vector<RowPlan::Term> terms;
    for (std::size_t i = 0; i < own.terms.size(); ++i) {
      if (plan.part_keys.of(i) == part) terms.push_back(own.terms[i]);
    }
    own.terms = std::move(terms);
    return own;
  };
  const std::int64_t row = (plan.batch * p.heads + plan.head) * p.len_q + plan.query;
  PlannedRow whole = carry_out(right_plan(plan.batch, plan.head, plan.query), columns);
  std::fill(whole.o.begin(), whole.o.end(), 0);
  std::fill(whole.magnitude.begin(), whole.magnitude.end(), 0);
  for (std::size_t part = 0; part < places.parts; ++part) {
    const RowPlan own = part_of(row, part);
    const PartPlaces::Place from = places.from(row, part);
    if (own.terms.empty() || from.row < 0 || from.row >= p.queries()) continue;
    const RowPlan taken = part_of(from.row, from.part);
    if (taken.terms.empty()) continue;
    const PlannedRow o = carry_out(taken, columns);
    // Undivided results are relative to the maxima of their parts.
    const double log_weight =
        places.divided ? carry_out(own, {}).lse : walk(own).m + o.lse - walk(taken).m;
    const double weighs = std::exp(log_weight - whole.lse);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      whole.o[i] += weighs * o.o[i];
      whole.magnitude[i] += weighs * o.magnitude[i];
    }
  }
  return whole;
}

}  // namespace lanescope

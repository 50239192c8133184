#include "debug/causes/visit_sums.h"

#include <algorithm>
#include <cmath>

namespace lanescope {
namespace {

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

PlanInputs::VisitSums::VisitSums(PlanInputs& inputs, const RowPlan& plan, const Walk& own)
    : inputs_(inputs), plan_(plan), own_(own), in_tile_(plan.query % inputs.info().br) {
  for (std::size_t visited = 0; visited < own_.tiles; ++visited) {
    alphas_.push_back(own_.alpha(visited));
  }
  o_ = rules_of(plan.o_rescale);
  l_ = rules_of(plan.l_rescale);
}

PlanInputs::VisitSums::Rules PlanInputs::VisitSums::rules_of(Rescale rule) const {
  Rules rules{{}, std::vector<double>(own_.tiles, 1)};
  for (std::size_t visited = 0; visited < own_.tiles; ++visited) {
    rules.at.push_back(holds_at(visited) ? rule : Rescale::right);
  }
  for (std::size_t visited = own_.tiles; visited-- > 1;) {
    const double next = visited + 1 < own_.tiles ? alphas_[visited + 1] : 1;
    // What comes from before the first tile is nothing, whatever alpha is.
    const double before = visited > 1 ? alphas_[visited - 1] : 1;
    rules.carried[visited - 1] =
        rules.carried[visited] * carried(rules.at[visited], plan_.alpha_power, alphas_[visited],
                                         before, next,
                                         weight(own_.before(visited), own_.peak[visited]));
  }
  return rules;
}

double PlanInputs::VisitSums::share_by(const Rules& rules, double share, std::size_t term) const {
  const std::size_t visited = own_.tile_of[term];
  double sum =
      added(rules.at[visited], share, own_.scores[term], own_.peak[visited], alphas_[visited]);
  if (rules.at[visited] == Rescale::in_parts) {
    const auto parts = static_cast<std::size_t>(plan_.alpha_power);
    const std::size_t part = term % own_.width * parts / own_.width;
    sum *= std::pow(alphas_[visited], static_cast<double>(parts - 1 - part));
  }
  return sum == 0 ? 0 : sum * rules.carried[visited];
}

const PlanInputs::Walk& PlanInputs::VisitSums::row(std::int64_t in_tile) {
  const auto known = others_.find(in_tile);
  if (known != others_.end()) return known->second;
  return others_.emplace(in_tile, inputs_.walk_of_row(plan_, in_tile)).first->second;
}

double PlanInputs::VisitSums::share_by_row(std::int64_t in_tile, std::size_t term) {
  const std::size_t visited = own_.tile_of[term];
  const Walk& other = row(in_tile);
  return weight(own_.scores[term], own_.running[visited]) *
         weight(other.running_at(visited), other.running_at(own_.tiles - 1));
}

double PlanInputs::VisitSums::share_from_elsewhere(std::size_t term) {
  const std::size_t visited = own_.tile_of[term];
  const ElementPlace from = plan_.p_from(in_tile_, static_cast<std::int64_t>(term % own_.width));
  const Walk& other = row(from.row);
  const std::size_t key = term / own_.width * own_.width + static_cast<std::size_t>(from.col);
  if (key >= other.scores.size() || from.col < 0) return 0;
  return weight(other.scores[key], other.running_at(visited)) * own_.brought(visited);
}

PlanInputs::VisitSums::Shares PlanInputs::VisitSums::shares_of(std::size_t term) {
  const std::size_t visited = own_.tile_of[term];
  const double score = own_.scores[term], brought = own_.brought(visited);
  const double p = weight(score, own_.running[visited]);
  const double share = plan_.exponent == 1 ? p : std::pow(p, plan_.exponent);
  double in_o = share_by(o_, share, term);
  if (plan_.alpha_row > 0) in_o = share_by_row(in_tile_ ^ plan_.alpha_row, term);
  if (plan_.p_from && holds_at(visited)) in_o = share_from_elsewhere(term);
  double in_l = plan_.sums_kept ? 0 : share_by(l_, share, term);
  if (plan_.alpha_row_of_l > 0) in_l = share_by_row(in_tile_ ^ plan_.alpha_row_of_l, term);
  if (plan_.by_key != ByKey::nothing) {
    const Walk& other = row(static_cast<std::int64_t>(term % own_.width) % inputs_.info().br);
    if (plan_.by_key == ByKey::maximum) {
      in_o = in_l = std::exp(score - other.running_at(visited)) * brought;
    } else {
      in_o /= other.whole_sum();
    }
  }
  if (plan_.p_type != inputs_.inputs_.type() || plan_.p_misread) {
    in_o = value_of(plan_.v_type, round_to(plan_.p_type, p)) * brought;
  }
  if (plan_.p_kept) in_o = plan_.p_kept(share) * brought;
  return {in_o, plan_.sums_kept ? in_o : in_l};
}

double PlanInputs::VisitSums::l_of_other_rows() {
  double l = 0;
  for (std::int64_t bits = plan_.sum_rows; bits > 0; bits = (bits - 1) & plan_.sum_rows) {
    if ((in_tile_ ^ bits) >= inputs_.info().br) continue;
    const Walk& other = row(in_tile_ ^ bits);
    for (std::size_t i = 0; i < other.scores.size(); ++i) {
      const std::size_t visited = other.tile_of[i];
      if (visited >= own_.tiles) continue;
      l += plan_.sum_rows_times *
           (plan_.sums_rows_at_end
                ? weight(other.scores[i], other.m)
                : weight(other.scores[i], other.running_at(visited)) * own_.brought(visited));
    }
  }
  return l;
}

double PlanInputs::VisitSums::l_of_column() {
  double l = 0;
  for (std::int64_t number = 0; number < inputs_.info().br; ++number) {
    const Walk& other = row(number);
    for (std::size_t visited = 0; visited < own_.tiles; ++visited) {
      const std::size_t key = own_.visit(visited) * own_.width + static_cast<std::size_t>(in_tile_);
      if (key >= other.scores.size()) continue;
      l += weight(other.scores[key], other.running_at(visited)) * own_.brought(visited);
    }
  }
  return l;
}

}  // namespace lanescope

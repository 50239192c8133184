#include "debug/causes/row_sums.h"

#include <algorithm>

#include "reference/rescale_rule.h"

namespace lanescope {
namespace {

using reference::infinity;

/// What a score of a visit weighs in a sum that is brought to the walk's m by `rule`.
double brought(Rescale rule, double score, double peak, double before, double now, double m,
               bool is_last) {
  switch (rule) {
    case Rescale::none:
      return weight(score, now);
    case Rescale::twice:
      return weight(score, now) * std::exp(2 * (now - m));
    case Rescale::base_two:
      return weight(score, now) * std::exp2(now - m);
    case Rescale::base_e:
      return weight(score, now) * std::exp((now - m) * reference::log2_e);
    case Rescale::root:
      return weight(score, now) * std::exp((now - m) / 2);
    case Rescale::all:
      return weight(score, now) * weight(before, m);
    case Rescale::swapped:
      return weight(score, now) * weight(before, now);
    case Rescale::restart:
      return is_last ? weight(score, m) : 0;
    case Rescale::own_peak:
      return weight(score, peak) * std::exp(now - m);
    case Rescale::doubled:
    case Rescale::fourfold:
    case Rescale::right:
      break;
  }
  return weight(score, m);
}

/// How often a tile counts that `later` others follow.
double repeated(Rescale rule, std::size_t later) {
  const int doublings = rule == Rescale::doubled ? 1 : rule == Rescale::fourfold ? 2 : 0;
  return std::ldexp(1.0, doublings * static_cast<int>(std::min<std::size_t>(later, 512)));
}

}  // namespace

void PlanInputs::Sums::combine_by(Combine rule, std::size_t size,
                                  const std::vector<double>& scores) {
  struct Part {
    double l = 0, peak = -infinity, own = 0;
  };
  std::vector<Part> parts;
  for (std::size_t first = 0; first < in_o.size(); first += size) {
    const std::size_t end = std::min(first + size, in_o.size());
    Part& part = parts.emplace_back();
    part.peak = *std::max_element(&scores[first], &scores[first] + (end - first));
    for (std::size_t i = first; i < end; ++i) {
      part.l += in_l[i];
      part.own += weight(scores[i], part.peak);
    }
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
          return parts[i].own;
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
  for (std::size_t i = 0; i < in_o.size(); ++i) in_o[i] *= factors[i / size] * total / weights;
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

PlanInputs::Sums PlanInputs::sums_of(const RowPlan& plan) {
  const Walk own = walk(plan);
  const std::vector<double>& scores = own.scores;
  const std::int64_t in_tile = plan.query % info().br, first_query = plan.query - in_tile;
  Sums sums;
  sums.m = own.m;
  sums.largest_score = own.largest_score;
  const std::int64_t whole_keys = problem().visible_keys(first_query);
  const auto holds = [&](std::size_t visited) {
    if (plan.rescaled_so == Among::all) return true;
    const bool whole =
        static_cast<std::int64_t>((own.visit(visited) + 1) * own.width) <= whole_keys;
    return whole == (plan.rescaled_so == Among::whole);
  };
  // A rule of some tiles: what the others do to what was there before them is right.
  const auto by = [&](Rescale rule, double score, std::size_t visited) {
    if (plan.rescaled_so == Among::all) {
      return brought(rule, score, own.peak[visited], own.before(visited), own.running[visited],
                     own.m, visited + 1 == own.tiles) *
             repeated(rule, own.tiles - 1 - visited);
    }
    double in_sum = weight(score, own.running[visited]);
    for (std::size_t next = visited + 1; next < own.tiles; ++next) {
      const double alpha = std::exp(own.running[next - 1] - own.running[next]);
      in_sum *= !holds(next)             ? alpha
                : rule == Rescale::none  ? 1
                : rule == Rescale::twice ? alpha * alpha
                                         : alpha;
    }
    return in_sum;
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
    double in_o = by(plan.o_rescale, scores[i], visited);
    if (plan.alpha_row > 0) {
      const Walk& other = row(in_tile ^ plan.alpha_row);
      in_o = weight(scores[i], own.running[visited]) *
             weight(other.running[visited], other.running[own.tiles - 1]);
    }
    if (plan.p_from) {
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
    sums.in_o.push_back(term.in_o * in_o);
    sums.in_l.push_back(term.in_l * by(plan.l_rescale, scores[i], visited));
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
  if (plan.combine != Combine::right) {
    sums.combine_by(plan.combine, static_cast<std::size_t>(plan.part_keys), scores);
  }
  return sums;
}

}  // namespace lanescope

#include "gates/sweep/rule.h"

#include <algorithm>
#include <cmath>

#include "gates/sweep/conditions.h"

namespace lanescope {
namespace {

constexpr std::size_t beam_width = 24;
constexpr std::size_t most_conditions = 4, most_clauses = 4;
constexpr std::size_t most_cells = 3000;  ///< that a rule is learnt from, of each sort
constexpr std::size_t most_exceptions = 3;

/// Bits that say which `some` of `all` it is.
double bits_of(std::int64_t all, std::int64_t some) {
  const auto n = static_cast<double>(all), k = static_cast<double>(some);
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2.0) +
         std::log2(n + 1);
}

/// A conjunction, and where it holds of the cells that are left.
struct Candidate {
  std::vector<std::size_t> conditions;
  double said = 0;   ///< bits of its conditions
  double total = 0;  ///< and of the exceptions to it
  CellSet holds;
};

class Learner {
 public:
  Learner(const std::vector<CellResult>& results, const std::vector<std::size_t>& chosen) {
    std::vector<Cell> cells;
    left_.resize((chosen.size() + 63) / 64);
    failing_ = left_;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      cells.push_back(results[chosen[i]].cell);
      left_[i / 64] |= std::uint64_t{1} << i % 64;
      if (results[chosen[i]].failed()) failing_[i / 64] |= std::uint64_t{1} << i % 64;
    }
    conditions_ = conditions_on(cells);
  }

  /// The clause that shortens the description of what is left most; nothing: none does.
  std::optional<Candidate> next() {
    const std::int64_t all = count(left_), failing = count(both(left_, failing_));
    if (failing == 0) return std::nullopt;
    std::vector<Candidate> beam = {{{}, 0, bits_of(all, failing), left_}};
    Candidate best = beam.front();
    for (std::size_t depth = 0; depth < most_conditions && !beam.empty(); ++depth) {
      beam = longer_by_one(beam);
      for (const Candidate& candidate : beam) {
        if (mostly_fails(candidate) && candidate.total < best.total - 1e-9) best = candidate;
      }
    }
    if (best.conditions.empty()) return std::nullopt;
    left_ = without(left_, best.holds);
    return best;
  }

  std::vector<std::string> texts_of(const Candidate& candidate) const {
    std::vector<std::string> texts;
    for (const std::size_t i : candidate.conditions) texts.push_back(conditions_[i].text);
    return texts;
  }

 private:
  /// A condition more of one of the beam.
  struct Step {
    double total;
    std::size_t from, condition;
  };

  /// Whether it says that cells fail, not that they do not.
  bool mostly_fails(const Candidate& candidate) const {
    return 2 * count(both(candidate.holds, failing_)) > count(candidate.holds);
  }

  /// The best conjunctions of one more condition each, of those that hold of the same cells one.
  std::vector<Candidate> longer_by_one(const std::vector<Candidate>& beam) const {
    std::vector<Step> steps;
    const std::int64_t all = count(left_), all_failing = count(both(left_, failing_));
    for (std::size_t from = 0; from < beam.size(); ++from) {
      const std::int64_t before = count(beam[from].holds);
      for (std::size_t i = 0; i < conditions_.size(); ++i) {
        const CellSet holds = both(beam[from].holds, conditions_[i].holds);
        const std::int64_t held = count(holds), failing = count(both(holds, failing_));
        // One that makes failing rarer among its cells is the opposite of a rule.
        if (failing * all <= all_failing * held || held == before) continue;
        const CellSet rest = without(left_, holds);
        steps.push_back({beam[from].said + conditions_[i].bits + bits_of(held, held - failing) +
                             bits_of(count(rest), count(both(rest, failing_))),
                         from, i});
      }
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.total < b.total; });
    std::vector<Candidate> longer;
    for (const Step& step : steps) {
      if (longer.size() == beam_width) break;
      Candidate next = beam[step.from];
      next.conditions.push_back(step.condition);
      next.said += conditions_[step.condition].bits;
      next.total = step.total;
      next.holds = both(next.holds, conditions_[step.condition].holds);
      const auto same = [&](const Candidate& other) { return other.holds == next.holds; };
      if (std::none_of(longer.begin(), longer.end(), same)) longer.push_back(std::move(next));
    }
    return longer;
  }

  CellSet left_, failing_;
  std::vector<Condition> conditions_;
};

/// Of many cells, those that are learnt from: as many of each sort, evenly spread.
std::vector<std::size_t> chosen_of(const std::vector<CellResult>& results) {
  std::vector<std::size_t> sorts[2];
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Outcome outcome = results[i].outcome;
    if (outcome == Outcome::match || results[i].failed()) {
      sorts[results[i].failed() ? 1 : 0].push_back(i);
    }
  }
  std::vector<std::size_t> chosen;
  for (const std::vector<std::size_t>& sort : sorts) {
    const std::size_t step = (sort.size() + most_cells - 1) / most_cells;
    for (std::size_t i = 0; i < sort.size(); i += step) chosen.push_back(sort[i]);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void add_exception(std::vector<std::string>& exceptions, const CellResult& result) {
  if (exceptions.size() < most_exceptions) exceptions.push_back(command_of(result.cell));
}

}  // namespace

std::string Clause::text() const {
  std::string text;
  for (const std::string& condition : conditions) {
    text += (text.empty() ? "" : " and ") + condition;
  }
  return text;
}

Rule learn_rule(const std::vector<CellResult>& results) {
  const std::vector<std::size_t> chosen = chosen_of(results);
  Rule rule;
  Learner learner(results, chosen);
  std::vector<bool> covered(chosen.size());
  while (rule.clauses.size() < most_clauses) {
    const std::optional<Candidate> found = learner.next();
    if (!found) break;
    Clause clause{learner.texts_of(*found), 0, 0, {}};
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (!(found->holds[i / 64] >> i % 64 & 1)) continue;
      covered[i] = true;
      const CellResult& result = results[chosen[i]];
      ++(result.failed() ? clause.failing : clause.passing);
      if (!result.failed()) add_exception(clause.exceptions, result);
    }
    rule.clauses.push_back(std::move(clause));
  }
  rule.cells = std::ssize(chosen);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const CellResult& result = results[chosen[i]];
    rule.failing += result.failed();
    if (covered[i] || !result.failed()) continue;
    ++rule.unexplained;
    add_exception(rule.exceptions, result);
  }
  return rule;
}

}  // namespace lanescope

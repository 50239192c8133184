#include "debug/causes/flaw_trial.h"

#include <algorithm>
#include <cmath>

#include "debug/causes/row_subset.h"
#include "debug/judge/compare.h"

namespace lanescope {
namespace {

/// Share of the values that tell a flaw from what is right that must follow from it.
constexpr double least_explained = 0.98;

/// As O holds it: what is beyond the range of its type is infinite.
double as_stored(ElementType dtype, double o) {
  const ElementType type = dtype == ElementType::e4m3 ? ElementType::f16 : dtype;
  const double stored = held_as(type, o);
  return std::isinf(stored) ? stored : o;
}

}  // namespace

bool FlawTrial::explains() const {
  return decisive >= OutputRow::fewest_decisive && explained >= least_explained * decisive;
}

std::string FlawTrial::part(std::int64_t br, std::int64_t d) const {
  if (is_of_lse_alone()) return "the log-sum-exp";
  if (flawed_lse == 0 && spared_columns.empty()) return "O";
  if (denies_lse()) return "";
  const std::string some = subset_text("rows", flawed, spared, br);
  return some.empty() ? subset_text("columns", flawed_columns, spared_columns, d) : some;
}

namespace {

/// Whether what is held is a value. A NaN or infinity in the place of a number is none, however
/// large that may be with the flaw.
bool is_held(double got, double value, double allowed) {
  return (std::isfinite(got) || !std::isfinite(value)) && compare(got, value, allowed).holds;
}

/// Whether wrong values that tell most do not follow: more of them than 2 % of all may be, of many
/// more than two.
bool misses_the_worst(const Flaw& flaw, PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  const ElementType dtype = inputs.info().dtype;
  int missed = 0, telling = 0, looked_at = 0, wrong = 0;
  for (const OutputRow& row : rows) wrong += row.wrong_values;
  const int most_missed = std::min(2, static_cast<int>((1 - least_explained) * wrong));
  for (const OutputRow& row : rows) {
    const bool by_lse = row.o.empty() || (row.lse && row.lse->wrong() && row.telling.empty());
    if (row.telling.empty() && (!by_lse || looked_at >= 4)) continue;
    RowPlan plan = inputs.right_plan(row.batch, row.head, row.query);
    flaw.edit(plan);
    if (plan.beyond) continue;
    ++looked_at;
    if (plan.o_type != dtype) return false;
    const PlannedRow planned = inputs.carry_out(plan, row.telling);
    if (by_lse && row.lse) {
      const double allowed = tolerance_of_lse(*row.lse, planned.lse, planned.largest_score);
      const bool fits = !row.lse->unwritten && !std::isnan(planned.lse) &&
                        is_held(row.lse->got, planned.lse, allowed);
      const bool tells = row.lse->unwritten ||
                         !is_held(row.lse->got, row.lse->want,
                                  tolerance_of_lse(*row.lse, row.lse->want, planned.largest_score));
      telling += tells;
      missed += tells && !fits;
    }
    for (std::size_t i = 0; i < row.telling.size(); ++i) {
      const OutputValue& o = row.o[static_cast<std::size_t>(row.telling[i])];
      const auto allowed = [&](double value) {
        return tolerance_of_o(o, value, planned.magnitude[i], planned.largest_score, dtype);
      };
      const double predicted = as_stored(dtype, planned.o[i]);
      const bool fits =
          !o.unwritten && !std::isnan(predicted) && is_held(o.got, predicted, allowed(predicted));
      const bool tells = o.unwritten || !is_held(o.got, o.want, allowed(o.want));
      telling += tells;
      missed += tells && !fits;
    }
    if (missed > most_missed) return true;
  }
  // Errors that are within what may be off anyway show no flaw, and of few that are not most
  // follow.
  return looked_at > 0 && (telling == 0 || 2 * missed > telling);
}

}  // namespace

FlawTrial try_flaw(const Flaw& flaw, PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  const ElementType dtype = inputs.info().dtype;
  FlawTrial trial;
  if (misses_the_worst(flaw, inputs, rows)) return trial;
  enum class Tells : std::uint8_t { flawed, spared, nothing };
  // `read`: what the kernel stored, where others read other bits.
  const auto compare_with = [&](const OutputValue& value, double read, double predicted,
                                double allowed, double allowed_of_right) {
    // A NaN that is predicted says nothing of where one comes from.
    const bool fits =
        !value.unwritten && !std::isnan(predicted) && is_held(read, predicted, allowed);
    const bool telling = value.unwritten || !is_held(value.got, value.want, allowed_of_right);
    if (value.wrong() && telling) {
      ++trial.decisive;
      trial.explained += fits;
      return Tells::flawed;
    }
    ++trial.right;
    trial.predicted += fits;
    return fits ? Tells::nothing : Tells::spared;
  };
  for (const OutputRow& row : rows) {
    RowPlan plan = inputs.right_plan(row.batch, row.head, row.query);
    flaw.edit(plan);
    const PlannedRow planned = inputs.carry_out(plan);
    const double score = planned.largest_score;
    const FlawTrial before = trial;
    for (std::size_t col = 0; col < row.o.size(); ++col) {
      const OutputValue& o = row.o[col];
      const double read =
          plan.o_type == dtype ? o.got : value_of(plan.o_type, round_to(dtype, o.got));
      const double magnitude = planned.magnitude[col];
      const double predicted = as_stored(plan.o_type, planned.o[col]);
      const Tells tells =
          compare_with(o, read, predicted, tolerance_of_o(o, predicted, magnitude, score, dtype),
                       tolerance_of_o(o, o.want, magnitude, score, dtype));
      const auto at = static_cast<std::int64_t>(col);
      if (tells == Tells::flawed) trial.flawed_columns.push_back(at);
      if (tells == Tells::spared) trial.spared_columns.push_back(at);
    }
    if (row.lse) {
      const Tells tells = compare_with(*row.lse, row.lse->got, planned.lse,
                                       tolerance_of_lse(*row.lse, planned.lse, score),
                                       tolerance_of_lse(*row.lse, row.lse->want, score));
      trial.flawed_lse += tells == Tells::flawed;
      trial.spared_lse += tells == Tells::spared;
      trial.denied_lse += tells == Tells::spared && trial.decisive > before.decisive;
    }
    if (plan.beyond && trial.explained - before.explained < trial.decisive - before.decisive) {
      const int known = trial.beyond + 1;
      trial = before;
      trial.beyond = known;
      continue;
    }
    if (trial.lost()) break;
    const std::int64_t in_tile = row.query % inputs.info().br;
    if (trial.decisive > before.decisive) {
      trial.flawed.push_back(in_tile);
    } else if (trial.predicted - before.predicted < trial.right - before.right) {
      trial.spared.push_back(in_tile);
    }
  }
  return trial;
}

}  // namespace lanescope

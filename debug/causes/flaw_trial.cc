#include "debug/causes/flaw_trial.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "debug/causes/row_subset.h"
#include "debug/judge/compare.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

/// Blocks and rows of each that are looked at, and values that must tell a flaw from what is right.
constexpr std::int64_t blocks_tried = 4;
constexpr std::int64_t rows_tried = 12;
constexpr int fewest_decisive = 8;
/// Share of the values that tell a flaw from what is right that must follow from it.
constexpr double least_explained = 0.98;
/// Rows, and columns of O in each, that are looked at before all of them.
constexpr std::size_t telling_rows = 4, telling_columns = 4;

/// Row tiles to look at: the one that failed first, then of others the ends and what lies between.
std::vector<std::int64_t> row_tiles(const Scene& scene, Rows which) {
  const std::int64_t count = scene.info().row_tiles();
  if (which == Rows::all) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const std::int64_t first = scene.block() / scene.info().splits;
  std::vector<std::int64_t> tiles = {first},
                            others = {count - 1, 0, count / 2, count / 4, 3 * count / 4};
  // Of few rows each, more of them.
  const std::int64_t rows = scene.info().rows(scene.info().place(first * scene.info().splits));
  const std::int64_t wanted =
      std::max<std::int64_t>(blocks_tried, rows_tried / std::max<std::int64_t>(rows, 1));
  for (std::int64_t i = 0; i < wanted; ++i) others.push_back(i * count / wanted);
  for (const std::int64_t tile : others) {
    if (std::ssize(tiles) == wanted) break;
    if (std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) tiles.push_back(tile);
  }
  return tiles;
}

OutputValue value_in(const Tensor& tensor, std::int64_t index, const reference::Bounded& want,
                     std::int64_t row, std::int64_t col) {
  return {tensor.at(index), want.value(row, col), want.error(row, col),
          is_unwritten(tensor, index)};
}

double half_unit(ElementType type) { return std::ldexp(1.0, -format_of(type).fraction_bits - 1); }
/// By what scores are off, and with them, relatively, weights: the sum of a product rounds what is
/// larger than the score itself.
double score_rounding(double largest_score) { return 0x1p-20 * (1 + largest_score); }

/// How far O may be from what a flawed kernel in exact arithmetic gives: the bound on the right
/// value, and for what the flaw makes larger, P rounded in each of its terms, O once. A sum of
/// nothing is zero.
double tolerance_of_o(const OutputValue& value, double predicted, double magnitude, double score,
                      ElementType type) {
  const double smallest =
      std::ldexp(1.0, format_of(type).min_exponent - format_of(type).fraction_bits);
  if (magnitude == 0) return smallest;
  return (std::isfinite(value.bound) ? 2 * value.bound : 0) +
         (half_unit(operand_type(type)) + score_rounding(score)) * magnitude +
         2 * half_unit(type) * std::abs(predicted) + smallest;
}

double tolerance_of_lse(const OutputValue& value, double predicted, double score) {
  return (std::isfinite(value.bound) ? 2 * value.bound : 0) +
         score_rounding(score + std::abs(predicted));
}

/// As O holds it: what is beyond the range of its type is infinite.
double as_stored(ElementType dtype, double o) {
  const ElementType type = dtype == ElementType::e4m3 ? ElementType::f16 : dtype;
  const double stored = held_as(type, o);
  return std::isinf(stored) ? stored : o;
}

/// The columns that are wrong by most, in units of the bound.
void set_telling(OutputRow& row) {
  std::vector<std::pair<double, std::int64_t>> wrong;
  for (std::size_t col = 0; col < row.o.size(); ++col) {
    const OutputValue& o = row.o[col];
    if (!o.wrong()) continue;
    const double error = std::abs(o.got - o.want) / std::max(o.bound, 0x1p-40);
    wrong.emplace_back(std::isnan(error) ? reference::infinity : error,
                       static_cast<std::int64_t>(col));
  }
  const std::size_t count = std::min(wrong.size(), telling_columns);
  std::partial_sort(wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(count), wrong.end(),
                    std::greater<>());
  for (std::size_t i = 0; i < count; ++i) row.telling.push_back(wrong[i].second);
}

/// Counts what is wrong, and puts what tells most first: a flaw that does not fit is given up soon.
std::vector<OutputRow> by_what_they_tell(std::vector<OutputRow> rows) {
  for (OutputRow& row : rows) {
    row.wrong_values = static_cast<int>(std::count_if(
        row.o.begin(), row.o.end(), [](const OutputValue& value) { return value.wrong(); }));
    row.wrong_values += row.lse && row.lse->wrong();
    row.telling.clear();
  }
  const auto right = std::stable_partition(rows.begin(), rows.end(),
                                           [](const OutputRow& row) { return row.wrong(); });
  const auto wrong = static_cast<std::size_t>(right - rows.begin());
  for (std::size_t i = 0; i < std::min(wrong, telling_rows); ++i) {
    set_telling(rows[wrong <= telling_rows ? i : i * (wrong - 1) / (telling_rows - 1)]);
  }
  return rows;
}

}  // namespace

bool OutputValue::wrong() const { return unwritten || !compare(got, want, bound).holds; }

std::vector<OutputRow> output_rows(const Scene& scene, std::optional<SiteId> site, Rows which) {
  const DumpInfo& info = scene.info();
  const Tensor* const o = scene.dump().find("o_final");
  const bool stores_lse = !scene.dump().find_site("o_final") || scene.dump().find_site("lse");
  const Tensor* const lse = stores_lse ? scene.dump().find("lse") : nullptr;
  std::vector<OutputRow> rows;
  for (const std::int64_t tile : row_tiles(scene, which)) {
    std::optional<reference::Bounded> want_o, want_lse;
    scene.judge().judge(tile, [&](SiteId id, std::int64_t, std::int64_t, Judgement judgement,
                                  const reference::Bounded& want) {
      if (judgement != Judgement::chain) return;
      if (id == SiteId::o_final) want_o = want;
      if (id == SiteId::lse) want_lse = want;
    });
    if (!o || !want_o) continue;
    const BlockPlace place = info.place(tile * info.splits);
    const std::int64_t count = info.rows(place), first = info.first_q_row(place);
    const std::int64_t looked_at = which == Rows::all ? count : std::min(count, rows_tried);
    for (std::int64_t i = 0; i < looked_at; ++i) {
      const std::int64_t row = looked_at == 1 ? 0 : i * (count - 1) / (looked_at - 1);
      OutputRow& own = rows.emplace_back(
          OutputRow{place.batch, info.head_of(place, row), info.query_of(place, row), {}, {}});
      for (std::int64_t col = 0; site != SiteId::lse && col < info.problem.d; ++col) {
        own.o.push_back(value_in(*o, (first + row) * o->dims.back() + col, *want_o, row, col));
      }
      if (lse && want_lse && site != SiteId::o_final)
        own.lse = value_in(*lse, first + row, *want_lse, row, 0);
    }
  }
  return by_what_they_tell(std::move(rows));
}

std::vector<OutputRow> judged_by(PlanInputs& inputs, std::vector<OutputRow> rows) {
  const ElementType dtype = inputs.info().dtype;
  for (OutputRow& row : rows) {
    const PlannedRow right = inputs.carry_out(inputs.right_plan(row.batch, row.head, row.query));
    for (std::size_t col = 0; col < row.o.size(); ++col) {
      OutputValue& o = row.o[col];
      o.bound = tolerance_of_o(o, right.o[col], right.magnitude[col], right.largest_score, dtype);
      o.want = right.o[col];
    }
    if (!row.lse) continue;
    row.lse->bound = tolerance_of_lse(*row.lse, right.lse, right.largest_score);
    row.lse->want = right.lse;
  }
  return by_what_they_tell(std::move(rows));
}

bool may_be_explained(const std::vector<OutputRow>& rows) {
  int wrong = 0;
  for (const OutputRow& row : rows) wrong += row.wrong_values;
  return wrong >= fewest_decisive;
}

bool says_which(const std::vector<OutputRow>& rows) {
  const auto says = [](const OutputValue& value) {
    return value.wrong() && !value.unwritten && std::isfinite(value.got) && value.got != 0;
  };
  return std::any_of(rows.begin(), rows.end(), [&](const OutputRow& row) {
    return std::any_of(row.o.begin(), row.o.end(), says) || (row.lse && says(*row.lse));
  });
}

bool FlawTrial::explains() const {
  return decisive >= fewest_decisive && explained >= least_explained * decisive;
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

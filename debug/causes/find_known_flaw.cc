#include <algorithm>
#include <cmath>
#include <optional>

#include "debug/causes/detectors.h"
#include "debug/causes/known_flaws.h"
#include "debug/causes/phrases.h"
#include "debug/causes/row_subset.h"
#include "debug/judge/compare.h"

namespace lanescope {
namespace {

/// Blocks and rows of each that are looked at, and values that must tell a flaw from what is right.
constexpr std::size_t blocks_tried = 4;
constexpr std::int64_t rows_tried = 12;
constexpr int fewest_decisive = 8;

/// A value of the outputs.
struct Value {
  double got, want, bound;
  bool unwritten;
  bool wrong() const { return unwritten || !compare(got, want, bound).holds; }
};

/// A row of the outputs as the kernel left it.
struct OutputRow {
  std::int64_t batch, head, query;
  std::vector<Value> o;      ///< [d]
  std::optional<Value> lse;  ///< where the kernel has one
  bool wrong() const {
    return (lse && lse->wrong()) ||
           std::any_of(o.begin(), o.end(), [](const Value& value) { return value.wrong(); });
  }
};

/// Row tiles to look at: the one that failed first, then of others the ends and what lies between.
std::vector<std::int64_t> row_tiles(const Scene& scene) {
  const std::int64_t count = scene.info().row_tiles();
  const std::int64_t first = scene.block() / scene.info().splits;
  std::vector<std::int64_t> tiles = {first};
  for (const std::int64_t tile :
       {count - 1, std::int64_t{0}, count / 2, count / 4, 3 * count / 4}) {
    if (tiles.size() == blocks_tried) break;
    if (std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) tiles.push_back(tile);
  }
  return tiles;
}

Value value_of(const Tensor& tensor, std::int64_t index, const reference::Bounded& want,
               std::int64_t row, std::int64_t col) {
  return {tensor.at(index), want.value(row, col), want.error(row, col),
          is_unwritten(tensor, index)};
}

/// `site`: of this output alone; none: of all.
std::vector<OutputRow> output_rows(const Scene& scene, std::optional<SiteId> site) {
  const DumpInfo& info = scene.info();
  const Tensor* const o = scene.dump().find("o_final");
  const bool stores_lse = !scene.dump().find_site("o_final") || scene.dump().find_site("lse");
  const Tensor* const lse = stores_lse ? scene.dump().find("lse") : nullptr;
  std::vector<OutputRow> rows;
  for (const std::int64_t tile : row_tiles(scene)) {
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
    const std::int64_t looked_at = std::min(count, rows_tried);
    for (std::int64_t i = 0; i < looked_at; ++i) {
      const std::int64_t row = looked_at == 1 ? 0 : i * (count - 1) / (looked_at - 1);
      OutputRow& own = rows.emplace_back(
          OutputRow{place.batch, info.head_of(place, row), info.query_of(place, row), {}, {}});
      for (std::int64_t col = 0; site != SiteId::lse && col < info.problem.d; ++col) {
        own.o.push_back(value_of(*o, (first + row) * o->dims.back() + col, *want_o, row, col));
      }
      if (lse && want_lse && site != SiteId::o_final)
        own.lse = value_of(*lse, first + row, *want_lse, row, 0);
    }
  }
  // What tells most first: a flaw that does not fit is given up soon.
  std::stable_partition(rows.begin(), rows.end(), [](const OutputRow& row) { return row.wrong(); });
  return rows;
}

double half_unit(ElementType type) { return std::ldexp(1.0, -format_of(type).fraction_bits - 1); }
/// By what scores are off, and with them, relatively, weights: the sum of a product rounds what is
/// larger than the score itself.
double score_rounding(double largest_score) { return 0x1p-20 * (1 + largest_score); }

/// How far O may be from what a flawed kernel in exact arithmetic gives: the bound on the right
/// value, and for what the flaw makes larger, P rounded in each of its terms, O once.
double tolerance_of_o(const Value& value, double predicted, double magnitude, double score,
                      ElementType type) {
  const double smallest =
      std::ldexp(1.0, format_of(type).min_exponent - format_of(type).fraction_bits);
  return (std::isfinite(value.bound) ? 2 * value.bound : 0) +
         (half_unit(operand_type(type)) + score_rounding(score)) * magnitude +
         2 * half_unit(type) * std::abs(predicted) + smallest;
}

double tolerance_of_lse(const Value& value, double predicted, double score) {
  return (std::isfinite(value.bound) ? 2 * value.bound : 0) +
         score_rounding(score + std::abs(predicted));
}

/// How a flaw fares with the rows.
struct Trial {
  int decisive = 0, explained = 0, right = 0, predicted = 0;
  /// Rows of the tile that are wrong, and right ones that would be wrong with the flaw.
  std::vector<std::int64_t> flawed, spared;
  bool lost() const { return decisive - explained > 0.02 * decisive + 2; }
  bool explains() const { return decisive >= fewest_decisive && explained >= 0.98 * decisive; }
  bool wins() const { return explains() && predicted >= 0.98 * right; }
};

Trial try_flaw(const Flaw& flaw, PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  const ElementType dtype = inputs.info().dtype;
  Trial trial;
  const auto compare_with = [&](const Value& value, double predicted, double allowed,
                                double allowed_of_right) {
    const bool fits = !value.unwritten && compare(value.got, predicted, allowed).holds;
    const bool telling = value.unwritten || !compare(value.got, value.want, allowed_of_right).holds;
    if (value.wrong() && telling) {
      ++trial.decisive;
      trial.explained += fits;
    } else {
      ++trial.right;
      trial.predicted += fits;
    }
  };
  for (const OutputRow& row : rows) {
    RowPlan plan = inputs.right_plan(row.batch, row.head, row.query);
    flaw.edit(plan);
    const PlannedRow planned = inputs.carry_out(plan);
    const double score = planned.largest_score;
    const Trial before = trial;
    for (std::size_t col = 0; col < row.o.size(); ++col) {
      const Value& o = row.o[col];
      const double magnitude = planned.magnitude[col];
      compare_with(o, planned.o[col], tolerance_of_o(o, planned.o[col], magnitude, score, dtype),
                   tolerance_of_o(o, o.want, magnitude, score, dtype));
    }
    if (row.lse) {
      compare_with(*row.lse, planned.lse, tolerance_of_lse(*row.lse, planned.lse, score),
                   tolerance_of_lse(*row.lse, row.lse->want, score));
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

/// The factor of the scores that comes nearest to the first wrong rows.
Flaw nearest_scale(PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  const auto error = [&](double factor) {
    double sum = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 4); ++i) {
      RowPlan plan = inputs.right_plan(rows[i].batch, rows[i].head, rows[i].query);
      plan.scale *= factor;
      const PlannedRow planned = inputs.carry_out(plan);
      // In units of what rounding may do: the log-sum-exp says more than O.
      const auto add = [&](const Value& value, double predicted) {
        sum += std::abs(value.got - predicted) / std::max(value.bound, 0x1p-24);
      };
      for (std::size_t col = 0; col < rows[i].o.size(); ++col) {
        add(rows[i].o[col], planned.o[col]);
      }
      if (rows[i].lse) add(*rows[i].lse, planned.lse);
    }
    return sum;
  };
  double best = 1, step = 1.04;
  for (int i = -60; i <= 60; ++i) {
    if (error(std::pow(step, i)) < error(best)) best = std::pow(step, i);
  }
  // From there on by ever smaller steps, down to the rounding of a factor in fp32.
  while (step > 1 + 0x1p-24) {
    const double up = best * step, down = best / step;
    if (error(up) < error(best)) {
      best = up;
    } else if (error(down) < error(best)) {
      best = down;
    } else {
      step = std::sqrt(step);
    }
  }
  return {Cause::wrong_scale, Stage::qk,
          "whose scores have the factor " + number_text(best, 4) + " too much", 3,
          [=](RowPlan& plan) { plan.scale *= best; }};
}

}  // namespace

void find_known_flaw(const Scene& scene, Findings& findings) {
  const DumpInfo& info = scene.info();
  const bool traced = std::any_of(info.sites.begin(), info.sites.end(),
                                  [](const DumpSite& entry) { return !is_output(entry.site.id); });
  if (!scene.at_end() || scene.judge().gate() != Gate::fused) return;
  // What a traced kernel holds before the outputs is right: the first that differs are these.
  const auto possible = [&](const Flaw& flaw) {
    return !traced || flaw.stage == Stage::epilogue ||
           (flaw.stage == Stage::combine && info.splits > 1);
  };
  // Of a traced kernel, each output is judged by itself: the other may be right.
  const std::vector<OutputRow> rows =
      output_rows(scene, traced ? std::optional(scene.site()) : std::nullopt);
  PlanInputs inputs(scene.dump());
  std::vector<std::pair<Flaw, Trial>> fitting;
  const auto attempt = [&](const Flaw& flaw) {
    const Trial trial = try_flaw(flaw, inputs, rows);
    if (trial.explains() && !trial.wins()) {
      const std::string some = rows_text(trial.flawed, trial.spared, info.br);
      if (some.empty()) return;
      fitting.emplace_back(flaw, trial);
      fitting.back().first.text += ", in " + some + " alone";
      fitting.back().first.choices += 2;
      fitting.back().second.predicted = trial.right;  // the others are as they should be
    } else if (trial.wins()) {
      fitting.emplace_back(flaw, trial);
    }
  };
  for (const Flaw& flaw : known_flaws(info)) {
    if (possible(flaw)) attempt(flaw);
  }
  if (fitting.empty() && !traced) attempt(nearest_scale(inputs, rows));
  if (fitting.empty()) return;
  const auto fewest = std::min_element(fitting.begin(), fitting.end(), [](auto& a, auto& b) {
    return a.first.choices < b.first.choices;
  });
  const int choices = fewest->first.choices;
  for (const auto& [flaw, trial] : fitting) {
    if (flaw.choices > choices) continue;
    Finding finding{flaw.cause, static_cast<double>(trial.explained) / trial.decisive};
    finding.consistent = trial.right == 0 ? 1 : static_cast<double>(trial.predicted) / trial.right;
    finding.formula = true;
    finding.bits += 4 * flaw.choices;
    if (!traced) finding.stage = flaw.stage;
    finding.evidence = {"the outputs are those of attention " + flaw.text,
                        share_text(trial.explained, trial.decisive) + " wrong values and " +
                            share_text(trial.predicted, trial.right) +
                            " others follow from that, in " + std::to_string(rows.size()) +
                            " rows"};
    if (finding.stage) {
      finding.evidence.back() += std::string("; the bug is in the stage ") + name_of(flaw.stage);
    }
    findings.push_back(finding);
  }
}

}  // namespace lanescope

#include "debug/causes/near_flaws.h"

#include <algorithm>
#include <cmath>

#include "debug/judge/compare.h"
#include "debug/text/text.h"

namespace lanescope {
namespace {

/// By how much the outputs are off in the rows that are wrong, in units of their bounds: from those
/// of a flaw, or from what is right.
double error_of(const Flaw* flaw, PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  double sum = 0;
  for (const OutputRow& row : rows) {
    if (!row.wrong()) break;
    RowPlan plan = inputs.right_plan(row.batch, row.head, row.query);
    if (flaw) flaw->edit(plan);
    const PlannedRow planned = inputs.carry_out(plan);
    for (std::size_t col = 0; col < row.o.size(); ++col) {
      const OutputValue& o = row.o[col];
      sum += std::abs(o.got - planned.o[col]) / std::max(o.bound, 0x1p-30);
    }
  }
  return sum;
}

}  // namespace

std::optional<Finding> nearest_rounding(const std::vector<Flaw>& flaws, double share,
                                        PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  const double from_right = error_of(nullptr, inputs, rows);
  const Flaw* nearest = nullptr;
  double least = share * from_right;
  for (const Flaw& flaw : flaws) {
    const bool saturates = flaw.cause == Cause::clamped && flaw.stage == Stage::softmax;
    if (flaw.cause != Cause::precision_lost && !saturates) continue;
    const double error = error_of(&flaw, inputs, rows);
    // A limit leaves nothing but roundings.
    constexpr double nothing = 0.2;
    if (!(error < least) || (saturates && error > nothing * from_right)) continue;
    least = error;
    nearest = &flaw;
  }
  if (!nearest) return std::nullopt;
  Finding finding{nearest->cause, 0.97};  // near, not equal: never certain
  finding.stage = nearest->stage;
  finding.evidence = {"the outputs are nearest to those of attention " + nearest->text +
                      ": off by " + number_text(100 * least / from_right, 2) +
                      " % of what they are off from the right ones"};
  return finding;
}

std::optional<Finding> other_sum(PlanInputs& inputs, const std::vector<OutputRow>& rows,
                                 std::int64_t splits) {
  int wrong = 0, explained = 0, larger = 0;
  for (const OutputRow& row : rows) {
    if (!row.wrong() || !row.lse || row.o.empty()) continue;
    ++wrong;
    const PlannedRow right = inputs.carry_out(inputs.right_plan(row.batch, row.head, row.query));
    const double times = std::exp(row.lse->got - right.lse);
    const auto follows = [&](const OutputValue& o, double value) {
      return compare(o.got, value / times, 2 * o.bound / std::min(1.0, times)).holds;
    };
    const bool fits = std::isfinite(times) && times > 0 && std::abs(times - 1) > 1e-3 &&
                      std::equal(row.o.begin(), row.o.end(), right.o.begin(), follows);
    explained += fits;
    larger += fits && times > 1;
  }
  if (wrong < 4 || explained < 0.98 * wrong) return std::nullopt;
  // A number for each row is free: it says where the bug is, not what.
  const Cause cause = larger == explained ? Cause::contribution_repeated
                      : larger == 0       ? Cause::contribution_missing
                                          : Cause::wrong_formula;
  Finding finding{cause, 0.95};
  finding.stage = splits > 1 ? Stage::combine : Stage::softmax;
  finding.evidence = {
      "of each row, O and the log-sum-exp are those of another l, all else is right"};
  return finding;
}

}  // namespace lanescope

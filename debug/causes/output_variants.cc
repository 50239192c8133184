#include "debug/causes/output_variants.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "debug/causes/flaw_trial.h"
#include "debug/judge/compare.h"

namespace lanescope {
namespace {

using Query = Recurrence::Query;

double kept(ElementType type, double x) { return value_of(type, round_to(type, x)); }

/// A number near the middle between two that the type has may be rounded to either: a power of a
/// score of this magnitude, in f32, is off by less, relatively.
double power_rounding(double score) { return 0x1p-20 * (1 + score); }

/// Changes a plan to one of the variant; `lean` says to which side P leans before it is rounded.
void set(const Recurrence& variant, ElementType type, double lean, RowPlan& plan) {
  if (variant.query != Query::plain) {
    // As the kernel has it, in f32.
    const float scale = static_cast<float>(plan.scale) *
                        (variant.query == Query::rounded_base_2 ? 1.44269504F : 1.0F);
    plan.q_kept = [=](double q) { return kept(type, static_cast<float>(q) * scale) / scale; };
  }
  if (variant.sum_of_rounded) {
    plan.p_kept = [=](double p) { return kept(type, p * (1 + lean)); };
    plan.sums_kept = true;
  }
}

bool holds(const OutputValue& value, double low, double predicted, double high) {
  if (value.unwritten) return false;
  if (compare(value.got, predicted, value.bound).holds) return true;
  return value.got >= std::min(low, high) - value.bound &&
         value.got <= std::max(low, high) + value.bound;
}

/// Whether all values are right of attention that goes the variant's way.
bool gives(const Recurrence& variant, PlanInputs& inputs, const std::vector<OutputRow>& rows) {
  const ElementType type = inputs.info().dtype;
  return std::ranges::all_of(rows, [&](const OutputRow& row) {
    const auto carry_out = [&](double lean) {
      RowPlan plan = inputs.right_plan(row.batch, row.head, row.query);
      set(variant, type, lean, plan);
      return inputs.carry_out(plan);
    };
    const PlannedRow mid = carry_out(0);
    const double off = power_rounding(mid.largest_score);
    const PlannedRow low = carry_out(-off), high = carry_out(off);
    for (std::size_t col = 0; col < row.o.size(); ++col) {
      if (!holds(row.o[col], low.o[col], mid.o[col], high.o[col])) return false;
    }
    return !row.lse || holds(*row.lse, low.lse, mid.lse, high.lse);
  });
}

}  // namespace

std::optional<Recurrence> find_output_variant(const Dump& dump, const DiffReport& report) {
  const DumpInfo& info = dump.info;
  const bool is_16_bit = info.dtype == ElementType::f16 || info.dtype == ElementType::bf16;
  if (report.match || !report.first || info.broke_off() || !is_16_bit) return std::nullopt;
  const std::vector<OutputRow> rows =
      output_rows(Scene(dump, *report.first), std::nullopt, Rows::all);
  PlanInputs inputs(dump);
  for (const bool sum_of_rounded : {false, true}) {
    for (const Query query : {Query::plain, Query::rounded_base_2, Query::rounded_base_e}) {
      Recurrence variant;
      variant.query = query;
      variant.sum_of_rounded = sum_of_rounded;
      if (variant.differs() && gives(variant, inputs, rows)) return variant;
    }
  }
  return std::nullopt;
}

}  // namespace lanescope

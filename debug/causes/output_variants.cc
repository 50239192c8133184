#include "debug/causes/output_variants.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "debug/causes/flaw_trial.h"
#include "debug/judge/compare.h"

namespace lanescope {
namespace {

using Query = Recurrence::Query;

/// A number near the middle between two that the type has may be rounded to either: a power of a
/// score of this magnitude, in f32, is off by less, relatively.
double power_rounding(double score) { return 0x1p-20 * (1 + score); }

/// Changes a plan to one of the variant; `lean` says to which side P leans before it is rounded.
void set(const Recurrence& variant, ElementType type, double lean, RowPlan& plan) {
  if (variant.query != Query::plain) {
    // As the kernel has it, in f32.
    const float scale = static_cast<float>(plan.scale) *
                        (variant.query == Query::rounded_base_2 ? 1.44269504F : 1.0F);
    plan.q_kept = [=](double q) { return held_as(type, static_cast<float>(q) * scale) / scale; };
  }
  if (variant.sum_of_rounded) {
    plan.p_kept = [=](double p) { return held_as(type, p * (1 + lean)); };
    plan.sums_kept = true;
    plan.downwards = !variant.order.empty();
    plan.keys_per_chain = variant.keys_per_chain;
  }
}

bool holds(const OutputValue& value, double low, double predicted, double high) {
  if (value.unwritten) return false;
  if (compare(value.got, predicted, value.bound).holds) return true;
  return value.got >= std::min(low, high) - value.bound &&
         value.got <= std::max(low, high) + value.bound;
}

/// The outputs that are looked at.
enum class Outputs : std::uint8_t { both, o, lse };

/// Whether all values are right of attention that goes the variant's way.
bool gives(const Recurrence& variant, PlanInputs& inputs, const std::vector<OutputRow>& rows,
           Outputs which) {
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
    for (std::size_t col = 0; which != Outputs::lse && col < row.o.size(); ++col) {
      if (!holds(row.o[col], low.o[col], mid.o[col], high.o[col])) return false;
    }
    return which == Outputs::o || !row.lse || holds(*row.lse, low.lse, mid.lse, high.lse);
  });
}

/// Ways over `tiles` tiles of `bc` keys to P, relative to the maximum so far: upwards, downwards,
/// in splits of so many tiles.
std::vector<Recurrence> ways_over(std::int64_t tiles, std::int64_t bc) {
  constexpr std::int64_t most_in_split = 16;
  std::vector<Recurrence> ways(1);
  if (tiles == 1) return ways;
  Recurrence& downwards = ways.emplace_back();
  for (std::int64_t tile = tiles; tile-- > 0;) downwards.order.push_back(tile);
  for (std::int64_t in_split = 1; in_split < std::min(tiles, most_in_split); ++in_split) {
    ways.emplace_back().keys_per_chain = in_split * bc;
  }
  return ways;
}

/// Ways to round that kernels of 16 bits choose, simplest first. Where l sums rounded P, the order
/// of the tiles shows: P is rounded relative to the maximum so far.
std::vector<Recurrence> variants_of(PlanInputs& inputs) {
  std::vector<Recurrence> variants;
  const ElementType type = inputs.info().dtype;
  if (type != ElementType::f16 && type != ElementType::bf16) return variants;
  const std::int64_t bc = inputs.info().bc, tiles = (inputs.problem().len_kv + bc - 1) / bc;
  constexpr Query queries[] = {Query::plain, Query::rounded_base_2, Query::rounded_base_e};
  for (const Query query : {Query::rounded_base_2, Query::rounded_base_e}) {
    variants.emplace_back().query = query;
  }
  for (Recurrence& way : ways_over(tiles, bc)) {
    for (const Query query : queries) {
      way.query = query;
      way.sum_of_rounded = true;
      variants.push_back(way);
    }
  }
  return variants;
}

}  // namespace

std::optional<Recurrence> find_output_variant(const Dump& dump, const DiffReport& report,
                                              const std::optional<Recurrence>& elsewhere) {
  const DumpInfo& info = dump.info;
  if (report.match || !report.first || info.broke_off()) return std::nullopt;
  const std::vector<OutputRow> rows =
      output_rows(Scene(dump, *report.first), std::nullopt, Rows::all);
  PlanInputs inputs(dump);
  std::vector<Recurrence> variants = variants_of(inputs);
  std::stable_partition(variants.begin(), variants.end(), [&](const Recurrence& variant) {
    return elsewhere && variant.query == elsewhere->query &&
           variant.sum_of_rounded == elsewhere->sum_of_rounded;
  });
  for (const Recurrence& variant : variants) {
    if (gives(variant, inputs, rows, Outputs::both)) return variant;
  }
  return std::nullopt;
}

std::vector<Recurrence> variants_of_one_output(PlanInputs& inputs,
                                               const std::vector<OutputRow>& rows) {
  const auto has_both = [](const OutputRow& row) { return row.lse && !row.o.empty(); };
  if (!std::ranges::all_of(rows, has_both)) return {};
  std::vector<Recurrence> variants = variants_of(inputs);
  std::erase_if(variants, [&](const Recurrence& variant) {
    return gives(variant, inputs, rows, Outputs::o) == gives(variant, inputs, rows, Outputs::lse);
  });
  return variants;
}

void go_by(const Recurrence& variant, PlanInputs& inputs) {
  inputs.go_by(
      [variant, type = inputs.info().dtype](RowPlan& plan) { set(variant, type, 0, plan); });
}

}  // namespace lanescope

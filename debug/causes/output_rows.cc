#include "debug/causes/output_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "debug/judge/compare.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

/// Blocks and rows of each that are looked at.
constexpr std::int64_t blocks_tried = 4;
constexpr std::int64_t rows_tried = 12;
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

bool OutputValue::wrong() const { return unwritten || !compare(got, want, bound).holds; }

std::vector<OutputRow> output_rows(const Scene& scene, std::optional<SiteId> site, Rows which) {
  const DumpInfo& info = scene.info();
  const Tensor* const o = scene.dump().find("o_final");
  const Tensor* const lse = owes_lse(scene.dump()) ? scene.dump().find("lse") : nullptr;
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
  return wrong >= OutputRow::fewest_decisive;
}

bool says_which(const std::vector<OutputRow>& rows) {
  const auto says = [](const OutputValue& value) {
    return value.wrong() && !value.unwritten && std::isfinite(value.got) && value.got != 0;
  };
  return std::any_of(rows.begin(), rows.end(), [&](const OutputRow& row) {
    return std::any_of(row.o.begin(), row.o.end(), says) || (row.lse && says(*row.lse));
  });
}

}  // namespace lanescope

#include "debug/causes/carried_rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "debug/judge/compare.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

/// What goes on: with m, l alone, O alone, or both; in rows that see no key, what was there.
struct Carried {
  const char* what;
  bool sum, output, keyless = false;
};
constexpr Carried all_carried[] = {{"m and l", true, false},
                                   {"m and O", false, true},
                                   {"m, l and O", true, true},
                                   {"l and O, of rows that see no key,", false, true, true}};

class CarriedRows {
 public:
  CarriedRows(const Dump& dump, PlanInputs& inputs, const std::vector<OutputRow>& rows)
      : problem_(dump.info.problem),
        o_(*dump.find("o_final")),
        lse_(dump.find("lse")),
        inputs_(inputs) {
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(wrong_),
                 [](const OutputRow& row) { return row.wrong() && row.lse && !row.o.empty(); });
  }

  std::optional<Finding> find() {
    constexpr std::size_t fewest_rows = 8;
    if (!lse_ || wrong_.size() < fewest_rows) return std::nullopt;
    for (const OutputRow& row : wrong_) {
      right_.push_back(inputs_.carry_out(inputs_.right_plan(row.batch, row.head, row.query)));
    }
    for (const Carried& carried : all_carried) {
      for (const int lanes : {1, 4, 2, 8, 16, 32}) {
        if (lanes > 1 && !carried.sum) break;
        if (const auto before = distance_of(carried, lanes)) {
          return finding_of(carried, lanes, *before);
        }
      }
    }
    return std::nullopt;
  }

 private:
  std::int64_t index_of(const OutputRow& row) const {
    return (row.batch * problem_.heads + row.head) * problem_.len_q + row.query;
  }

  Finding finding_of(const Carried& carried, int lanes, std::int64_t before) const {
    Finding finding{Cause::accumulator_not_cleared, 1};
    finding.formula = true;
    finding.stage = Stage::softmax;
    finding.evidence = {
        "of all " + std::to_string(wrong_.size()) + " wrong rows, " + carried.what +
        " go on from the row " + std::to_string(before) + " before" +
        (lanes > 1 ? ", l in each of the " + std::to_string(lanes) + " lanes that add up a row"
                   : "") +
        ": they are not set anew for the next item of the block"};
    return finding;
  }

  /// How many rows before are those from which all wrong ones go on.
  std::optional<std::int64_t> distance_of(const Carried& carried, int lanes) const {
    for (std::int64_t before = 1; before <= index_of(wrong_[0]); ++before) {
      if (all_follow(carried, lanes, before)) return before;
    }
    return std::nullopt;
  }

  bool all_follow(const Carried& carried, int lanes, std::int64_t before) const {
    for (std::size_t i = 0; i < wrong_.size(); ++i) {
      const std::int64_t from = index_of(wrong_[i]) - before;
      if (from < 0 || !follows(carried, lanes, wrong_[i], right_[i], from)) return false;
    }
    return true;
  }

  /// The row from which it goes on has, as stored, the sum that its own went on from, in each of
  /// `lanes` lanes whose sums are put together.
  bool follows(const Carried& carried, int lanes, const OutputRow& row, const PlannedRow& right,
               std::int64_t from) const {
    if (carried.keyless) return right.lse == -reference::infinity && holds_output_of(from, row);
    const double top = std::max(right.lse, lse_->at(from));
    const double own = std::exp(right.lse - top), other = std::exp(lse_->at(from) - top);
    const double sum = own + (carried.sum ? lanes * other : 0);
    const double lse = top + std::log(sum);
    if (!compare(row.lse->got, lse, 2 * row.lse->bound).holds) return false;
    for (std::size_t col = 0; col < row.o.size(); ++col) {
      const double before = o_.at(from * problem_.d + static_cast<std::int64_t>(col));
      const double o = (own * right.o[col] + (carried.output ? other * before : 0)) / sum;
      const double grows = std::max(1.0, (own + other) / sum);
      if (!compare(row.o[col].got, o, 4 * grows * row.o[col].bound).holds) return false;
    }
    return true;
  }

  /// Whether a row is another one as it was stored, times a factor: it may have been divided again.
  bool holds_output_of(std::int64_t other, const OutputRow& row) const {
    constexpr double rounding = 0x1p-6;  // of both, in bf16, and twice as much
    const auto before = [&](std::size_t col) {
      return o_.at(other * problem_.d + static_cast<std::int64_t>(col));
    };
    double product = 0, square = 0;
    for (std::size_t col = 0; col < row.o.size(); ++col) {
      product += row.o[col].got * before(col);
      square += before(col) * before(col);
    }
    if (!(std::isfinite(product) && square > 0 && product != 0)) return false;
    for (std::size_t col = 0; col < row.o.size(); ++col) {
      const double want = product / square * before(col);
      if (!(std::abs(row.o[col].got - want) <= rounding * std::abs(want))) return false;
    }
    return true;
  }

  const Problem& problem_;
  const Tensor& o_;
  const Tensor* lse_;
  PlanInputs& inputs_;
  std::vector<OutputRow> wrong_;
  std::vector<PlannedRow> right_;
};

}  // namespace

std::optional<Finding> carried_over(const Dump& dump, PlanInputs& inputs,
                                    const std::vector<OutputRow>& rows) {
  return CarriedRows(dump, inputs, rows).find();
}

}  // namespace lanescope

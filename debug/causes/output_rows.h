#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "debug/causes/row_plan.h"
#include "debug/causes/scene.h"

namespace lanescope {

/// A value of the outputs.
struct OutputValue {
  double got, want, bound;
  bool unwritten;
  bool wrong() const;
};

/// A row of the outputs as the kernel left it.
struct OutputRow {
  std::int64_t batch, head, query;
  std::vector<OutputValue> o;      ///< [d]
  std::optional<OutputValue> lse;  ///< where the kernel has one
  /// Columns of some rows that are wrong by most: a flaw that does not explain them is given up.
  std::vector<std::int64_t> telling = {};
  int wrong_values = 0;
  bool wrong() const { return wrong_values > 0; }
  /// Wrong values of all rows that a flaw has to explain, at least.
  static constexpr int fewest_decisive = 8;
};

/// Rows of some blocks, the one that failed first among them, or of all, wrong ones first. `site`:
/// of this output alone; none: of both.
enum class Rows : std::uint8_t { some, all };
std::vector<OutputRow> output_rows(const Scene& scene, std::optional<SiteId> site,
                                   Rows which = Rows::some);

/// The rows held against the right plans of `inputs`, which go another way than the reference.
std::vector<OutputRow> judged_by(PlanInputs& inputs, std::vector<OutputRow> rows);

/// Whether there are enough wrong values for a flaw to explain.
bool may_be_explained(const std::vector<OutputRow>& rows);

/// Whether what is wrong says by which of many rules: zeros, infinities and NaN do not.
bool says_which(const std::vector<OutputRow>& rows);

/// How far O may be from what a flawed kernel in exact arithmetic gives: the bound on the right
/// value, and for what the flaw makes larger, P rounded in each of its terms, O once. A sum of
/// nothing is zero. `score`: the largest of the row's, in magnitude.
double tolerance_of_o(const OutputValue& value, double predicted, double magnitude, double score,
                      ElementType type);
double tolerance_of_lse(const OutputValue& value, double predicted, double score);

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/known_flaws.h"
#include "debug/causes/output_rows.h"

namespace lanescope {

/// How a flaw fares with the rows.
struct FlawTrial {
  int decisive = 0, explained = 0, right = 0, predicted = 0;
  /// Rows of the tile that are wrong, and right ones that would be wrong with the flaw.
  std::vector<std::int64_t> flawed, spared;
  /// The same of the columns of O.
  std::vector<std::int64_t> flawed_columns, spared_columns;
  int beyond = 0;  ///< rows of which it says nothing, as it takes what lies behind the tensors
  int flawed_lse = 0, spared_lse = 0;  ///< values of the log-sum-exp
  int denied_lse = 0;                  ///< of the latter, those of rows whose O is wrong

  /// Given up: too many wrong values do not follow.
  bool lost() const { return decisive - explained > 0.02 * decisive + 2; }
  /// The wrong values follow from it.
  bool explains() const;
  /// The right ones do, too.
  bool wins() const { return explains() && predicted >= 0.98 * right && !denies_lse(); }
  /// All values follow, however few are wrong.
  bool is_whole() const { return decisive > 0 && explained == decisive && predicted == right; }
  /// All log-sum-exps are right, and would be wrong in rows whose O is.
  bool denies_lse() const { return flawed_lse == 0 && denied_lse >= 4; }
  /// It says nothing of what is wrong, and all else follows.
  bool allows() const { return beyond > 0 && decisive == 0 && predicted == right; }
  /// No element of O follows, and all log-sum-exps do.
  bool is_of_lse_alone() const { return flawed_columns.empty() && spared_lse == 0; }
  /// The part of the outputs in which alone the flaw is, as "odd rows" or "O"; empty where there is
  /// none.
  std::string part(std::int64_t br, std::int64_t d) const;
};

FlawTrial try_flaw(const Flaw& flaw, PlanInputs& inputs, const std::vector<OutputRow>& rows);

/// The log-sum-exp as m and ln l, each with a factor that is learnt from the rows; none where they
/// leave it open.
std::optional<Flaw> learned_log_sum(PlanInputs& inputs, const std::vector<OutputRow>& rows);

/// Tiles of K and V, of `size` keys, that heads take in the place of their own: by rows that see
/// all keys, where these are enough to solve for them. `values_alone`: K is as it should be.
std::optional<Flaw> learned_tiles(PlanInputs& inputs, const std::vector<OutputRow>& rows,
                                  std::int64_t size, bool values_alone);

/// Flaws with numbers in them that are free, and learnt from the rows: the factor of the scores,
/// the kv heads that heads take; and windows of every width. Which explains the rows is left to
/// try_flaw.
std::vector<Flaw> learned_flaws(PlanInputs& inputs, const std::vector<OutputRow>& rows);

}  // namespace lanescope

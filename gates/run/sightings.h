#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gates/run/run_options.h"
#include "reference/site.h"

namespace lanescope {

/// How far a kernel without markers was right, by the numbers that it came to: of rows whose
/// outputs are wrong, which scores, weights, row sums and sums of P·V it made, and which rows of Q,
/// K and V it never read.
struct Sightings {
  /// Numbers of a kind that wrong rows need.
  struct Part {
    std::int64_t needed = 0, seen = 0;
    std::vector<std::string> lines;  ///< that made them, most first: "fwd.cu:88"
    std::int64_t least = 0;          ///< that tell anything
    std::string lacking = {};        ///< where the others are: "keys 32 to 63", "odd columns"
    /// Not as few as some instruction comes to by chance.
    bool any() const { return !lines.empty() && needed >= least && 6 * seen >= needed; }
    bool none() const { return needed > 0 && needed >= least && !any(); }
    /// All of them, or nearly: a number may miss the width of what rounding does to it.
    bool complete() const { return any() && seen >= 0.99 * needed; }
    bool incomplete() const { return any() && seen <= 0.97 * needed; }
  };
  Part scores, weights, sums, outputs;
  bool lacks_sums = false;  ///< of right weights, no sum was right
  bool combines = false;    ///< blocks write outputs of V that others read
  /// Of one or two of Q, K and V nobody read anything, as if they had been copied before.
  bool skips_input = false;
  bool reads_all = false;  ///< all rows of Q, K and V that wrong rows need were read for them
  bool log_sums = false;   ///< the log-sum-exps of wrong rows are right: O alone is wrong
  /// Rows of Q, K and V that wrong rows need, and of them those that nobody read for them.
  std::int64_t queries = 0, keys = 0, unread_q = 0, unread_k = 0, unread_v = 0;

  /// The scores of all keys, and their weights, are right.
  bool made_scores() const { return scores.complete() && weights.complete(); }
  /// Weights and their sums are right.
  bool made_weights() const { return log_sums || (weights.complete() && sums.complete()); }
  /// Not the few of keys that a stage leaves out; or as many rows of K as scores are lacking.
  bool lacks_rows() const {
    const bool lacks_scores = scores.incomplete() && unread_k > 0 &&
                              unread_k * scores.needed >= (scores.needed - scores.seen) * keys;
    return lacks_scores || 4 * unread_q > queries || 4 * unread_k > keys || 4 * unread_v > keys;
  }
  /// Whether a fault in `stage` goes together with what was seen.
  bool allows(Stage stage) const;
  /// The stage where it went wrong, as far as that is seen; nothing: in several alike.
  std::optional<Stage> stage() const;
  /// The stage that should have stored what was never written, of weights that were made.
  std::optional<Stage> storing_stage() const;
  /// A line for each kind that was seen.
  std::vector<std::string> text() const;
};

/// Runs the kernel on the SIMT machine and looks for what wrong rows need. Nothing where it does
/// not run as PTX there or breaks off, no row is wrong, or the problem is too large. Throws as
/// prepare and launch do.
std::optional<Sightings> look_for_numbers(const RunOptions& options, std::int64_t most_products);

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/diagnose.h"
#include "gates/run/failed_runs.h"
#include "gates/run/flaw_rivals.h"
#include "gates/run/locate.h"
#include "gates/run/probe_runs.h"

namespace lanescope {

/// What the runs of a kernel that were made so far say together: of those that failed, the best
/// diagnosis; of those with another recurrence, whether it may be one.
class TakenRuns {
 public:
  /// The diagnosis or recurrence goes into `location`. `strict`: another recurrence is a fault.
  TakenRuns(ProbeRuns& runs, bool strict, Location& location)
      : runs_(runs), strict_(strict), location_(location) {}

  /// Takes a run; true where it diverged and its diagnosis is the best so far.
  bool take(const ProbeRun& run, const Probe& probe);
  /// After all runs: a recurrence of which they do not show that it is right on all inputs is a
  /// fault, and diagnosed as one.
  void settle_variant();
  /// After all runs, whose values are all right: what they show all the same, if anything.
  void take_truncation();

  bool last_failed() const { return last_failed_; }
  const RunOptions& failed() const { return failed_; }       ///< of the run whose diagnosis it is
  bool outputs_are_right() const { return outputs_right_; }  ///< of that run
  /// Registers were never written in it, before the epilogue.
  bool lanes_skip() const { return lanes_skip_; }
  /// Where values of it differ: whoever reads them may read too early.
  bool differs_in_shared() const { return in_shared_; }
  bool is_traced() const { return traced_; }  ///< the last run shows its inner values
  bool suffice() const { return failed_runs_.suffice(); }
  const FailedRuns& failed_runs() const { return failed_runs_; }
  FlawRivals& rivals() { return rivals_; }

  /// Takes for the diagnosis the cause that explains most of the runs.
  void take_what_explains_most();

 private:
  bool take_variant(const Recurrence& recurrence, const Probe& probe);
  Breadth breadth_in(const Problem& problem) const;
  void look_for_truncation(const Dump& dump, const std::string& text);

  ProbeRuns& runs_;
  bool strict_;
  Location& location_;
  std::vector<DumpInfo> right_;          ///< of the runs that match
  FailedRuns failed_runs_;               ///< of a kernel that is not traced
  int unexplained_ = 0;                  ///< runs in which no known flaw gives the outputs
  std::int64_t longest_ = 0;             ///< keys of a run that failed
  FlawRivals rivals_;                    ///< what its runs say of known flaws
  Probe variant_probe_;                  ///< the first with another recurrence
  Recurrence always_taken_;              ///< what runs that match show of who decides on m
  std::optional<Diagnosis> truncation_;  ///< what a run shows whose values are all right
  std::string truncated_options_;        ///< its options
  RunOptions failed_;
  bool fails_where_all_see_ = false;  ///< a run failed in which all rows and splits see keys
  bool last_failed_ = false, outputs_right_ = false, traced_ = false, in_shared_ = false,
       lanes_skip_ = false;
};

}  // namespace lanescope

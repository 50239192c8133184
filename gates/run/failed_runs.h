#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "debug/causes/diagnose.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// A run of a kernel that shows its outputs alone, which are wrong.
struct FailedRun {
  std::string text;  ///< its options, as on the command line
  RunOptions options;
  Diagnosis diagnosis;

  /// Whether the cause, or a rival of it, explains the run.
  bool is_explained_by(Cause cause) const;
};

/// Such runs of a kernel together: in a small problem, many bugs come to the same outputs.
class FailedRuns {
 public:
  void add(FailedRun run) { runs_.push_back(std::move(run)); }
  /// Whether more of them would tell more; of a kernel that is traced there are none.
  bool suffice() const { return runs_.empty() || runs_.size() >= wanted; }

  /// Takes for `diagnosis` the cause that explains most of the runs, as the first of them shows it,
  /// and refutes rivals that explain fewer. Returns that run; nullptr where the cause stays, as
  /// that does that says how a run ended.
  const FailedRun* take_what_explains_most(Diagnosis& diagnosis) const;
  /// The problems of these runs, `first` before the others; none of a kernel that is traced.
  std::vector<RunOptions> options(const RunOptions& first) const;
  /// A cause has to explain all of them to be certain.
  void doubt(Diagnosis& diagnosis) const;

 private:
  static constexpr std::size_t wanted = 3;
  std::ptrdiff_t explained_by(Cause cause) const;

  std::vector<FailedRun> runs_;
};

}  // namespace lanescope

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "debug/report/locate_report.h"
#include "gates/sweep/plan.h"
#include "gates/sweep/result.h"
#include "gates/sweep/rule.h"

namespace lanescope {

/// Cells of a kernel that fail in the same way.
struct FailingWay {
  std::string kernel, way;
  std::int64_t cells = 0;
  CellResult smallest;            ///< of those that were run, made smaller where `tried`
  std::int64_t tried = 0;         ///< cells that were run to make it smaller
  std::optional<Location> cause;  ///< what `locate` says of the smallest
  std::string not_located;        ///< why it says nothing
};

/// A cell that is not as it was.
struct Change {
  CellResult before, now;
};

/// What results say together.
struct SweepReport {
  std::vector<CellResult> results;  ///< of the cells, by index; those tried behind them
  std::int64_t wanted = 0;          ///< cells of this sweep (and shard); 0: of files, not known
  std::int64_t run_now = 0;         ///< of them, those that were not in the results file yet
  double seconds = 0;               ///< that running them took
  int workers = 0;
  std::string stopped;  ///< why it is not complete; empty: it is
  bool interrupted = false;
  std::vector<FailingWay> ways;  ///< those of most cells first
  struct KernelRule {
    std::string kernel;
    Rule rule;
  };
  std::vector<KernelRule> rules;  ///< of kernels with failing cells
  bool has_baseline = false;
  std::vector<CellResult> newly_failing;  ///< that did not fail in the baseline
  std::vector<CellResult> newly_right;
  std::vector<Change> changed_bits;  ///< where asked for
  std::int64_t not_in_baseline = 0;

  std::int64_t count(Outcome outcome) const;  ///< of cells, without those tried
  std::int64_t failing() const;
  /// Nothing fails; with a baseline: nothing fails that did not, and no bits changed.
  bool holds() const;
};

/// Sorts the results, groups the failing ones and learns the rules of their kernels.
void summarise(SweepReport& report);

/// Compares with what was; `bits`: also what the gates leave, bit for bit.
void compare_with(const std::vector<CellResult>& baseline, bool bits, SweepReport& report);

/// Of a results file: the cells of the sweep, whichever shard, and those tried for it. Throws
/// MismatchError where some are of another build.
std::vector<CellResult> results_of_sweep(const std::string& path, const SweepPlan& plan);

/// Runs the cells of `plan` that are not in the results file yet, on processes of their own, makes
/// failing ones smaller and locates their causes. An interrupt (SIGINT, SIGTERM) ends it early,
/// and what was run is in the report and the file. Throws MismatchError where the file holds cells
/// of this sweep from another build, and Error of the runs.
SweepReport sweep(const SweepOptions& options, const SweepPlan& plan);

/// For engines that spread cells over machines: runs those of `indices`, and writes a line each to
/// stdout.
void run_batch(const SweepOptions& options, const SweepPlan& plan,
               const std::vector<std::int64_t>& indices);

/// For people; the verdict is the last line.
std::string sweep_text(const SweepReport& report, const Style& style);
/// For programs: {schema, cells, wanted, outcomes: {match: n, ...}, failing, seconds,
/// cells_per_minute, stopped, ways: [{kernel, way, cells, tried, smallest: {result}, command,
/// cause, certain, explanation}], rules: [{kernel, cells, failing, clauses: [{conditions, failing,
/// passing, exceptions}], unexplained, exceptions}], baseline: null or {newly_failing, newly_right,
/// changed_bits: [command], not_in_baseline}, holds}
std::string sweep_json(const SweepReport& report);

}  // namespace lanescope

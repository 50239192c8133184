#pragma once

#include <vector>

#include "debug/report/locate_report.h"
#include "gates/run/locate_numbers.h"
#include "gates/run/locate_plan.h"
#include "gates/run/probe_runs.h"
#include "gates/run/run_options.h"
#include "gates/run/taken_runs.h"

namespace lanescope {

/// A NaN of rows that see no key, or no number that parts give: so it is where what is divided, or
/// merged, was never written.
bool may_be_of_nothing(const Diagnosis& diagnosis);
/// All that is known is that it crashed or hung: another problem may show why.
bool ended_without_cause(const Diagnosis& diagnosis);
/// Where it ended, no more is known: what it does in other problems may tell whose wait is wrong.
bool may_end_by_other_wait(const Diagnosis& diagnosis);

/// Tells what the runs of a kernel say together of the fault that they found, and where it is in
/// the source.
class TellFault {
 public:
  /// The fault is that of `location`, into which goes what is told.
  TellFault(const RunOptions& given, ProbeRuns& runs, TakenRuns& taken, Location& location)
      : given_(given), runs_(runs), taken_(taken), location_(location) {}

  /// `combines`: the kernel has a combine pass.
  void fault(const std::vector<Probe>& probes, bool combines);
  /// Of a kernel that runs as it is, without markers.
  void how_it_is_put_together(const std::vector<Probe>& probes, const SeenWays& seen);

 private:
  bool is_sure() const { return location_.diagnosis->sure(); }
  void ask_checker_after_all(const RunOptions& failed);
  void say_that_outputs_are_right();
  void find_source();

  const RunOptions& given_;
  ProbeRuns& runs_;
  TakenRuns& taken_;
  Location& location_;
};

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/judge/diff.h"
#include "debug/report/locate_report.h"
#include "gates/run/locate_dependence.h"
#include "gates/run/locate_plan.h"

namespace lanescope {

/// A run of a probe, and how it fared against the reference.
struct ProbeRun {
  Dump dump;
  DiffReport report;
  std::string text;  ///< its options, as on the command line
  std::vector<std::string> traits;
};

/// Runs probes of one kernel, and keeps what they say of it whatever their values are.
class ProbeRuns {
 public:
  /// `threads`: of a diff. Runs, and what was not tried, go into `location`.
  ProbeRuns(int threads, Location& location) : threads_(threads), location_(location) {}

  /// Runs a probe in the first of its shapes that the kernel does not refuse, with the heads or the
  /// lengths of a problem that it took before, or with a causal mask where it takes no other
  /// problems; the probe is that then. Nothing where it takes none. Throws as prepare and launch do
  /// where the user asked for the problem, EnvironmentError where the first run of all finds no
  /// memory or no module.
  std::optional<ProbeRun> run_nearest(Probe& probe);
  /// Of the probe as it is.
  std::optional<ProbeRun> run(const Probe& probe);
  /// Takes a run into the list of runs. `variant`: right outputs of another recurrence.
  void note(const ProbeRun& run, const Probe& probe, bool variant);
  /// No run counts as a variant any longer.
  void forget_variants();

  const std::vector<RunTraits>& traits() const { return traits_; }
  /// Why problems were left out, each reason once.
  std::string refusals() const;
  // Of the last run.
  const std::string& kernel() const { return kernel_; }
  const std::string& module_name() const { return module_name_; }
  const std::string& marked_ptx() const { return marked_ptx_; }  ///< empty: it has no markers

 private:
  std::vector<std::string> shapes_near(const Probe& probe) const;
  bool never_executed() const;
  std::vector<Problem> with_known_heads(const std::vector<Problem>& shapes) const;

  int threads_;
  Location& location_;
  std::vector<RunTraits> traits_;
  std::vector<std::string> refusals_;
  std::vector<Problem> taken_;
  std::set<std::string> texts_;  ///< of all runs, as ProbeRun::text
  /// Why a problem was left out: by the kernel, or by the machine, which does not know the code.
  struct Refusal {
    std::string why;
    bool not_executed = false;
  };
  std::optional<Refusal> refusal_;          ///< of the last problem
  std::map<std::string, Refusal> refused_;  ///< by problem, whatever its inputs
  std::string kernel_, module_name_, marked_ptx_;
};

}  // namespace lanescope

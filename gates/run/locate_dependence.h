#pragma once

#include <string>
#include <vector>

#include "debug/causes/diagnose.h"
#include "debug/report/locate_report.h"
#include "gates/run/run_options.h"
#include "reference/problem.h"

namespace lanescope {

/// What of a run may decide whether a fault shows: "--causal", "skv > 64 (several K/V tiles)", ...
std::vector<std::string> traits_of(const RunOptions& options, const Problem& problem,
                                   const Module& module);

/// A run and how it fared.
struct RunTraits {
  std::string options;  ///< as they are typed
  std::vector<std::string> traits;
  bool match = false;    ///< with the reference, or right outputs of another recurrence
  bool variant = false;  ///< of another recurrence
};

/// What tells the wrong runs from the right ones: a trait, or two, that a run has or lacks; else
/// what the right and the wrong run that differ least do not share. A sentence; empty where all are
/// right or all are wrong.
std::string dependence_text(const std::vector<RunTraits>& runs);

/// Adds that, and what else differs in the recurrence, to what the diagnosis says.
void add_dependence(const std::vector<RunTraits>& runs, Location& location);

/// Where scores far below 0 alone are wrong, whatever became of them, m does not follow them.
/// `traced`: the kernel shows its inner values.
void tell_low_scores(const std::vector<RunTraits>& runs, bool traced, Diagnosis& diagnosis);

}  // namespace lanescope

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "debug/causes/diagnose.h"
#include "debug/report/locate_report.h"
#include "gates/run/locate_plan.h"

namespace lanescope {

/// The runs of a kernel that shows its outputs alone, and the known flaws that explain the wrong
/// ones: a flaw is the cause where no other one explains all of them.
class FlawRivals {
 public:
  /// Of a run that is wrong, `first` and the flaws that explain it.
  void add(Dump dump, const std::optional<Divergence>& first, const std::vector<Finding>& flaws);

  /// Names in `diagnosis` the shortest flaw that explains most runs, and would show in none that is
  /// right. Where several of other causes or stages do, runs problems in which their outputs
  /// differ; those that are left are named, too. False where no flaw explains any run.
  bool settle(const std::vector<Probe>& probes, Location& location);

 private:
  struct Run {
    Dump dump;
    std::optional<Divergence> first;
  };
  /// Tells the second bug of a kernel that has two: the one that the first flaw names itself, else
  /// what explains, with the first, a run that the first alone does not. Runs problems that show
  /// many bugs. False where there is none.
  bool tell_another(const std::vector<Probe>& probes, Location& location);
  bool tell_another_of(const Run& run, Location& location) const;
  /// Makes a run of a problem that was not run yet; null where the kernel does not take it.
  const Run* run_once(const Probe& probe, Location& location);
  bool is_run(const std::string& text, const Location& location) const;
  /// The first flaw is not certain where it does not explain a run.
  void doubt(Location& location) const;
  /// The flaws of other causes or stages than the first one's.
  std::vector<Finding> rivals() const;
  /// Makes a run that tells the first flaw from others; false where none does.
  bool separate(const std::vector<Probe>& probes, Location& location);

  std::vector<Run> runs_;
  std::vector<Finding> flaws_;        ///< the shortest first
  std::vector<std::string> refused_;  ///< problems, by their options
};

}  // namespace lanescope

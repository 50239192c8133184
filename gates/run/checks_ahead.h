#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>

#include "gates/process/child.h"
#include "gates/run/locate_plan.h"

namespace lanescope {

/// Asks the memory checker of right runs in a process beside this one, one problem after another:
/// a kernel of few blocks leaves cores idle. Where it finds nothing, that is known; what it finds,
/// the caller asks again for.
class ChecksAhead {
 public:
  /// `threads`: of this machine, as RunOptions has them; with one nothing is asked ahead.
  explicit ChecksAhead(int threads);

  /// Will ask about `probe`.
  void add(const Probe& probe);
  /// Whether the checker found nothing; waits where it is being asked. Of what it was not asked yet
  /// it is not asked any more.
  bool is_clean(const Probe& probe);

 private:
  struct Check {
    std::string problem;
    RunOptions options;
  };
  void begin_next();
  void take_word();

  bool any_;
  std::deque<Check> waiting_;
  std::string asked_;             ///< the problem of
  std::unique_ptr<Child> child_;  ///< null: none is being asked about
  std::set<std::string> clean_;
};

}  // namespace lanescope

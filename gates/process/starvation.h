#pragma once

#include <sys/types.h>

#include <map>

namespace lanescope {

/// How long other work kept a process from the cores: time that is none of its own, so that a
/// machine that is busy makes no hang of a kernel that is slow.
class Starvation {
 public:
  /// Counts from now on. `process`: its id.
  explicit Starvation(pid_t process);

  /// Seconds that its threads were ready to run and had no core, of the thread with the most of
  /// them; 0 where the system does not say (schedstat, in proc).
  double seconds() const;

 private:
  using Waits = std::map<pid_t, double>;  ///< seconds of each thread
  static Waits waits_of(pid_t process);

  pid_t process_;
  Waits begin_;
};

}  // namespace lanescope

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gates/process/child.h"

namespace lanescope {

/// Processes that do tasks, one after the other each. A task and its answer are texts of up to
/// `most_bytes`. A process that ends in a task is replaced, and the task is done once more; where
/// that ends too, there is no answer.
class Crew {
 public:
  static constexpr std::size_t most_bytes = 1 << 16;
  using Work = std::function<std::string(const std::string& task)>;
  /// The next task; nothing: there is none now.
  using Next = std::function<std::optional<std::string>()>;
  /// Called in this process as tasks end. `lost`: how the processes ended that were to do it.
  using Done = std::function<void(const std::string& task, const std::optional<std::string>& answer,
                                  const std::string& lost)>;

  /// `begin` runs first in each process. Call it where no other thread runs.
  Crew(int size, std::function<Work()> begin);

  /// Until `next` has nothing left and all tasks are done, or `stop` says so: what is under way
  /// then is ended without an answer. Throws EnvironmentError where processes end that have done
  /// nothing.
  void run(const Next& next, const Done& done, const std::function<bool()>& stop);

 private:
  struct Seat {
    std::unique_ptr<Child> child;
    std::string task;
    bool busy = false, again = false;
  };
  void start(Seat& seat);
  void give(Seat& seat, const std::string& task);
  bool hear(Seat& seat, const Done& done);

  std::function<Work()> begin_;
  std::vector<Seat> seats_;
};

}  // namespace lanescope

#include "gates/run/checks_ahead.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "debug/text/progress.h"
#include "gates/run/check.h"
#include "gates/run/options_text.h"
#include "reference/error.h"

namespace lanescope {
namespace {

bool finds_nothing(const RunOptions& options) {
  try {
    const CheckReport report = check_kernel(options);
    return report.clean() && report.notes.empty() && report.nan.line.empty() &&
           report.warnings.empty();
  } catch (const Error&) {
    return false;
  }
}

/// In the child: says a word where the checker finds nothing. What the kernel prints, it has
/// printed before. It builds nothing: it may be killed at any time.
void ask(const RunOptions& options, int socket) {
  unsetenv("LANESCOPE_NINJA");
  Progress::show(false);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  if (finds_nothing(options)) send(socket, "c", 1, MSG_NOSIGNAL);
}

}  // namespace

ChecksAhead::ChecksAhead(int threads)
    : any_(threads == 0 ? std::thread::hardware_concurrency() > 1 : threads > 1) {}

void ChecksAhead::add(const Probe& probe) {
  if (!any_) return;
  RunOptions options = probe.options;
  options.backend = "sim";
  waiting_.push_back({options_text(probe.options), options});
  if (child_ && child_->listen(0) != Child::Heard::nothing) take_word();
  begin_next();
}

bool ChecksAhead::is_clean(const Probe& probe) {
  if (!any_) return false;
  const std::string problem = options_text(probe.options);
  std::erase_if(waiting_, [&](const Check& check) { return check.problem == problem; });
  if (child_ && asked_ == problem) {
    while (child_->listen(1) == Child::Heard::nothing) {
    }
    take_word();
  } else if (child_ && child_->listen(0) != Child::Heard::nothing) {
    take_word();
  }
  begin_next();
  return clean_.contains(problem);
}

void ChecksAhead::take_word() {
  if (child_->word() == 'c') clean_.insert(asked_);
  child_.reset();
}

void ChecksAhead::begin_next() {
  if (child_ || waiting_.empty()) return;
  const Check next = waiting_.front();
  waiting_.pop_front();
  asked_ = next.problem;
  try {
    child_ = std::make_unique<Child>([&](int socket) { ask(next.options, socket); });
  } catch (const EnvironmentError&) {
    waiting_.clear();  // no process to be had
  }
}

}  // namespace lanescope

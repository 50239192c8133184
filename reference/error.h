#pragma once

#include <stdexcept>
#include <string>

namespace lanescope {

/// What the process says to the shell that called it.
enum class ExitCode : int {
  ok = 0,           ///< all holds
  diverged = 1,     ///< a value diverged or a check failed
  usage = 2,        ///< wrong usage or unreadable input
  environment = 3,  ///< the machine lacks something: no device, no memory, no compiler
  mismatch = 4,     ///< a dump and a build do not belong together
};

/// An error with a text for the user (what, where, what to do) and the exit code it leads to.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

struct UsageError : Error {
  explicit UsageError(const std::string& text) : Error(ExitCode::usage, text) {}
};
/// Of code that the SIMT machine does not execute, whatever the problem.
struct NotExecutedError : UsageError {
  using UsageError::UsageError;
};
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& text) : Error(ExitCode::environment, text) {}
};
struct MismatchError : Error {
  explicit MismatchError(const std::string& text) : Error(ExitCode::mismatch, text) {}
};

}  // namespace lanescope

#pragma once

#include <string>
#include <vector>

namespace lanescope {

/// What became of a program that was run to its end.
struct ProgramOutcome {
  int code = -1;         ///< its exit code, −1 where a signal ended it
  int signal = 0;        ///< that signal
  bool stopped = false;  ///< we were told to stop, and it was ended
  std::string out, err;
};

/// Runs words[0] (found in PATH) with the arguments after it, stdin empty, and collects what it
/// says. Where the file descriptor `stop` becomes readable, it and all that it started are ended.
/// Throws EnvironmentError where it cannot be started.
ProgramOutcome run_program(const std::vector<std::string>& words, int stop);

}  // namespace lanescope

#pragma once

#include <functional>
#include <span>

#include "gates/commands/command.h"

namespace lanescope {

struct NamedCommand {
  const char* name;
  Command (*command)();
};

/// What the command line asks for.
struct Request {
  Action action;
  bool json = false, verbose = false, quiet = false;
};

/// Reads the command line and returns what `run` returns of the request. Where there is nothing to
/// run, it says why (the help, the version, what is wrong), and returns the exit code. Throws what
/// `run` throws, and UsageError.
int read_command_line(int argc, char** argv, std::span<const NamedCommand> commands,
                      const std::function<ExitCode(const Request&)>& run);

}  // namespace lanescope

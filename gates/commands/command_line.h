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
  const char* command = nullptr;  ///< of the commands; null: help
  Action action;
  bool json = false, verbose = false, quiet = false;
};

/// Whether what the command line asks for is to be said as JSON, whatever else is wrong with it.
bool asks_for_json(int argc, char** argv);

/// Reads the command line and returns what `run` returns of the request; --help and --version are
/// answered here. Throws what `run` throws, and UsageError, which says what there is instead.
int read_command_line(int argc, char** argv, std::span<const NamedCommand> commands,
                      const std::function<ExitCode(const Request&)>& run);

}  // namespace lanescope

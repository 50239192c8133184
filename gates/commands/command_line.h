#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gates/commands/commands.h"

namespace lanescope {

/// What the command line asks for.
struct Request {
  const char* command = nullptr;  ///< of the commands; null: help
  Action action;
  bool json = false, verbose = false, quiet = false;
};

/// Whether what the command line asks for is to be said as JSON, whatever else is wrong with it.
bool asks_for_json(int argc, char** argv);

/// The words of a command line that are no option of all commands: the first stands where a command
/// is wanted.
std::vector<std::string> plain_words(const std::vector<std::string>& arguments);

/// Reads the command line and returns what `run` returns of the request; --help and --version are
/// answered here. Throws what `run` throws, and UsageError, which says what there is instead.
int read_command_line(int argc, char** argv, std::span<const NamedCommand> commands,
                      const std::function<ExitCode(const Request&)>& run);

}  // namespace lanescope

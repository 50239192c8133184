#pragma once

#include <functional>

#include "debug/text/text.h"
#include "gates/commands/options.h"
#include "reference/error.h"

namespace lanescope {

/// How a command talks.
struct Output {
  bool json = false;
  Style style;
};

/// What a command does once its options are read: results go to stdout, everything else to stderr
/// (log.h). Throws Error.
using Action = std::function<ExitCode(const Output& output)>;

/// A command of the program, in a file of its name: NAME_command(). gates/meson.build lists them.
struct Command {
  const char* about;  ///< its line in the help
  /// Declares its options, which live as long as what it returns.
  Action (*declare)(Options& options);
};

}  // namespace lanescope

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

/// Declares the options of a command, which live as long as what it returns (commands.h lists
/// them).
using DeclareCommand = Action(Options& options);

}  // namespace lanescope

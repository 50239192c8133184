#pragma once

#include <span>

#include "gates/commands/command.h"

/// Every command, in the order of the help, by its name and what the help says of it. NAME.cc has
/// NAME_command(), which declares its options. Those that are FIRST are in the program that is
/// built first, so that a verdict is soon there; of those LATER the whole program alone knows more
/// than this (whole_program.h).
#define LANESCOPE_COMMANDS(FIRST, LATER)                                                         \
  FIRST(list, "kernels, gates, sites, specimens, presets, backends")                             \
  FIRST(run, "run one gate of a kernel and write a dump")                                        \
  FIRST(diff, "run and compare with the reference, or compare dumps")                            \
  LATER(watch, "diff again whenever a source is saved")                                          \
  FIRST(check, "run one gate on sim under the memory checker")                                   \
  LATER(exec, "run a program with CUDA kernels where there is no GPU, each launch checked")      \
  LATER(locate, "name stage, site, tile, lane and cause")                                        \
  LATER(sweep, "run a kernel on many shapes; name the smallest that fails, the rule, the cause") \
  LATER(calibrate, "which rounding rules the device follows")                                    \
  LATER(resources, "registers, spills, shared memory of cuda modules")                           \
  LATER(bench, "judge a kernel, then time it on the GPU")                                        \
  LATER(show, "one site of a dump, lane by lane")                                                \
  LATER(report, "a dump as a page: stages, heat maps, lanes")

namespace lanescope {

#define LANESCOPE_COMMAND(name, about) Action name##_command(Options& options);
LANESCOPE_COMMANDS(LANESCOPE_COMMAND, LANESCOPE_COMMAND)
#undef LANESCOPE_COMMAND

/// What a program has of a command.
struct NamedCommand {
  const char* name;
  const char* about;
  DeclareCommand* declare;  ///< null: it is of the whole program
};

/// All commands as the program at hand has them: first_commands.cc or all_commands.cc.
std::span<const NamedCommand> commands();

}  // namespace lanescope

#pragma once

namespace lanescope {

/// Whether a command line asks for what the program at hand does not have: a command of the whole
/// program, or what `help` says beyond the list of commands.
bool needs_whole_program(int argc, char** argv);

/// Builds the whole program, which lies in the folder commands/ beside the one at hand, where ninja
/// is at hand, and goes on as it, with the same words. Throws UsageError where it does not compile,
/// EnvironmentError where it is not there or does not start.
[[noreturn]] void become_whole_program(char** argv);

}  // namespace lanescope

#pragma once

#include <string>
#include <vector>

namespace lanescope {

/// From now on a build says nothing, unless it fails.
void build_quietly();

/// Runs `ninja` (its path) for `targets` of this build. What it says goes to stderr, but for the
/// line that there was nothing to do; where a terminal shows how far it is, without a line per
/// step; where builds are quiet, only if it fails. Returns its exit code. Throws EnvironmentError
/// where it cannot be started.
int run_ninja(const char* ninja, const std::vector<std::string>& targets);

/// How long `target`, a module, took to build, as `log` (the text of .ninja_log) has it: the last
/// time, else on average those of its backend and variant; 0 where there are none.
double seconds_to_build(const std::string& log, const std::string& target);

}  // namespace lanescope

#pragma once

#include <filesystem>
#include <string>

namespace lanescope {

/// How long a module may take to load.
inline constexpr double seconds_to_load = 10;

/// Loads the module in the file `path`, or what `file` has of it, in a process of its own, checks
/// its description and tries what this process calls of it, so that a module that breaks down there
/// does not break this process. Throws UsageError where the file is no module, what it says of
/// itself cannot be, or it breaks down or takes longer than `seconds`; EnvironmentError where a
/// library that it needs is missing; MismatchError where it was built for another version of
/// gates/module/module.h.
void try_module(const std::filesystem::path& path, const std::string& file,
                double seconds = seconds_to_load);

}  // namespace lanescope

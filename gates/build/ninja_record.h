#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lanescope {

/// The files that `record`, the bytes of ninja's .ninja_deps, has as included by what was compiled
/// for `target`: by the target itself, or by its objects in the folder TARGET.p. As ninja names
/// them, relative to the build's root; empty where it has none, or is of a version that is not
/// known.
std::vector<std::string> recorded_includes(std::string_view record, std::string_view target);

/// Whether `target`, a library that ninja makes below `build_root`, is whole (a linker makes what
/// it has written executable at last), newer than what it was compiled of as ninja recorded it, and
/// than the rules by which ninja makes it. Where that cannot be told, it is not. To ask this takes
/// a hundredth of the time that ninja takes to find that there is nothing to do.
bool is_newer_than_includes(const std::filesystem::path& build_root, const std::string& target);

}  // namespace lanescope

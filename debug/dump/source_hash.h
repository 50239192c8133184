#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lanescope {

/// A hash (FNV-1a, 64 bits, 16 hex digits) of the names and contents of `files`, which are relative
/// to `root`; one that is not there counts as such. Empty where none is.
std::string hash_sources(const std::filesystem::path& root, const std::vector<std::string>& files);

}  // namespace lanescope

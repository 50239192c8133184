#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lanescope {

/// A hash (FNV-1a, 64 bits, 16 hex digits) of the names and contents of `files`, which are relative
/// to `root`. Empty where one of them cannot be read.
std::string hash_sources(const std::filesystem::path& root, const std::vector<std::string>& files);

}  // namespace lanescope

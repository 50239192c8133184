#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lanescope {

/// The libraries that an ELF file of this machine's kind asks the loader for ("libcudart.so.13"),
/// in its order; none of a file that is no such, or broken.
std::vector<std::string> needed_libraries(const std::filesystem::path& path);

/// Whether `path` asks for the CUDA runtime that the SIMT machine has too.
bool needs_cuda_runtime(const std::filesystem::path& path);

}  // namespace lanescope

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

/// The path of a copy of the library `path` in memory, in which the CUDA runtime that it asks for
/// has the name under which load_machine_runtime has loaded the machine's, which is made so, too;
/// CUDA's driver beside it is in that. This process may have CUDA's own, and of one name the loader
/// takes what is there already. So it does of variables that are one in a process: they are the
/// copy's own. The same for as long as the file stays as it is. Throws EnvironmentError.
std::string on_machine_runtime(const std::filesystem::path& path);

}  // namespace lanescope

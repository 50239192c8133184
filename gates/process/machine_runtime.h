#pragma once

#include <filesystem>

#include "debug/ptx/runtime_entry.h"

namespace lanescope {

/// From now on what this process loads that is linked with libcudart finds the SIMT machine's
/// runtime, the file `path`: the loader takes the library of that name which is there already.
/// Throws EnvironmentError where it cannot be loaded.
void load_machine_runtime(const std::filesystem::path& path);

/// What was loaded, where a module uses it; else nullptr.
const ptx::RuntimeEntry* machine_runtime();

}  // namespace lanescope

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gates/build/module_catalogue.h"
#include "gates/build/module_file.h"

namespace lanescope {

/// Files of the build folder, `what` they are. Where the launcher runs the program (LANESCOPE_NINJA
/// names ninja), they are brought up to date, once in a process, progress on stderr. Throws
/// UsageError where a source does not compile, EnvironmentError where one of them is not built.
void build_files(const std::vector<std::filesystem::path>& files, const std::string& what);

/// The file of the module `name`, built likewise.
std::filesystem::path build_module(const std::string& name);

/// Brings several modules up to date likewise, at once.
void build_modules(const std::vector<std::string>& names);

/// Opens a declared module, built likewise. Throws MismatchError where it was built from other
/// sources than those at hand.
ModuleFile open_module(const ModuleName& name);
/// The same of a module that is up to date.
ModuleFile open_built_module(const ModuleName& name);
/// Its file.
std::filesystem::path module_path(const std::string& name);
/// What the compiler warned of in sources outside of the tree when it was built.
std::vector<std::string> warnings_of_module(const std::string& name);

/// The file of the SIMT machine's CUDA runtime (debug/ptx/cudart.h), built likewise.
std::filesystem::path build_machine_runtime();

/// The library through which the launches of marked kernels pass on a GPU
/// (gates/process/marked_cuda.h), built likewise, and where it lies then.
std::filesystem::path build_marked_cuda();
std::filesystem::path marked_cuda_path();

/// Opens a module by its path; `on_machine`: to run on the SIMT machine, where nvcc compiled it.
/// Throws MismatchError where it is one of a kernel of this build from other sources than those at
/// hand, unless `stale_ok`.
ModuleFile open_module_at(const std::filesystem::path& path, bool stale_ok, bool on_machine);

/// Whether a CUDA driver answers and has a device.
bool cuda_device_answers();

/// "auto": cuda where a device answers and this build has cuda modules, else sim.
/// Throws UsageError on another name, EnvironmentError on "cuda" where there is none.
std::string choose_backend(const std::string& wish);

}  // namespace lanescope

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "debug/ptx/runtime_entry.h"
#include "gates/module/module.h"
#include "gates/process/marked_cuda.h"

namespace lanescope {

/// From now on what this process loads by on_machine_runtime (gates/build/needed_libraries.h) finds
/// the SIMT machine's runtime, the file `path`.
/// Throws EnvironmentError where it cannot be loaded, MismatchError where
/// it is of a build with other headers.
void load_machine_runtime(const std::filesystem::path& path);

/// The module of a kernel given as PTX (gates/module/ptx_module.h), of which a process has one.
/// Throws UsageError.
const Module& open_ptx_module(const std::filesystem::path& path, bool on_cuda);
/// The path of its PTX, where a module is that one on a GPU, perhaps described otherwise; else
/// empty.
std::string ptx_path_of(const Module& module);
/// What has its runs on a GPU be those of a rewritten text.
MarkedCudaFunction* ptx_mark();

/// The file that was loaded; empty: none was.
std::string machine_runtime_path();

/// What was loaded, where a module uses it; else nullptr.
const ptx::RuntimeEntry* machine_runtime();

/// Writes the text of a marked kernel's PTX for a GPU to `file` (debug/ptx/rewrite_markers.h), by
/// the runtime at `path`, in a process of its own: this one has CUDA's. Throws UsageError where the
/// text cannot be rewritten.
void rewrite_marked_ptx(const std::filesystem::path& path, const char* ptx,
                        const ptx::MarkerRun& run, const ptx::MarkerBuffers& buffers, int file);

/// Throws MismatchError where the PTX file is not what the shared library `module` was compiled to.
void demand_markers_of(const std::filesystem::path& path, const std::string& module,
                       const char* ptx);

/// Where the markers of a PTX file name values of a site, and where those are computed
/// (debug/ptx/marked_text.h).
std::vector<std::string> marked_lines(const std::filesystem::path& path, const char* ptx,
                                      SiteId site);

}  // namespace lanescope

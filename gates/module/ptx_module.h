#pragma once

#include <cstddef>

namespace lanescope {

struct Module;

/// The name and type of the function of the machine's CUDA runtime that makes a module of a kernel
/// given as PTX, with a launch description beside it (gates/module/launch_description.h): the
/// module runs it on the buffers of a problem, on the machine or on a GPU. nullptr where that
/// cannot be: `why` takes the reason. The module lasts as long as the process, which has one of
/// them.
inline constexpr const char* ptx_module_function = "lanescope_ptx_module";
using PtxModuleFunction = const Module*(const char* path, bool on_cuda, char* why,
                                        std::size_t why_bytes);

/// The name of its function that has runs on a GPU be those of a rewritten text; its type is
/// MarkedCudaFunction (gates/process/marked_cuda.h).
inline constexpr const char* ptx_mark_function = "lanescope_mark_ptx";

}  // namespace lanescope

#pragma once

#include "gates/module/module.h"
#include "gates/module/ptx_launch.h"
#include "gates/process/marked_cuda.h"

namespace lanescope {

/// Module::device and Module::run of a kernel given as PTX, on the GPU: the driver compiles the
/// text. Of a marked kernel that is the text in `marked`, and `resources` takes what both texts
/// come to; nullptr: the kernel's own.
ModuleStatus cuda_device(char* name, int name_bytes, char* arch, int arch_bytes);
ModuleStatus run_on_cuda(const PtxLaunch& kernel, ModuleRun* r, const MarkedCuda* marked,
                         MarkedResources* resources);

}  // namespace lanescope

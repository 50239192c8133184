#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "gates/module/module.h"
#include "gates/process/child.h"
#include "gates/process/marked_cuda.h"
#include "gates/process/run_memory.h"

namespace lanescope {

/// The process that talks to the CUDA driver for this one, which never does: a process that has
/// done so cannot be forked any more (CUDA C++ Programming Guide: the driver is not usable in a
/// child forked after its initialisation). It starts when it is first asked something, and lives
/// on, since a CUDA context takes tenths of a second.
class CudaProcess {
 public:
  static CudaProcess& instance();

  /// Whether a CUDA driver answers and has a device.
  bool device_answers();

  /// The file that a module lies in; of a kernel given as PTX that is the machine's runtime, which
  /// runs it on a GPU too, and `ptx` the text.
  struct ModuleFiles {
    std::string library, ptx;
  };
  /// Has it run `run`, whose buffers lie in `memory`, with that module; what the
  /// kernel prints goes to `printed`, or to stderr. The returned child says a word when that is
  /// done (run_in_this_process has filled the memory's head) or ends.
  /// `marked`: of a marked kernel, its buffers in `memory` too.
  Child& start(const ModuleFiles& module, const ModuleRun& run, const RunMemory& memory,
               std::FILE* printed, const MarkedCuda* marked = nullptr);

  /// Ends the process; a new one answers what is asked next. Returns its status as waitpid does.
  int end();

 private:
  CudaProcess() = default;
  Child& child();

  std::unique_ptr<Child> child_;
};

}  // namespace lanescope

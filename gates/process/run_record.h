#pragma once

#include "debug/ptx/runtime_entry.h"
#include "debug/simt/last_words.h"
#include "gates/module/module.h"
#include "gates/process/marked_cuda.h"

namespace lanescope {

/// What a module's process says of its run, at the head of the memory that it shares. Starts as
/// zeroes, then is constructed in place.
struct RunRecord {
  ModuleStatus status = ModuleStatus::ok;
  bool loaded = false;  ///< on a GPU: what it has is compiled for it
  bool ended = false;   ///< the module's run returned
  char message[4096] = "";
  char device[256] = "";
  char arch[32] = "";
  simt::LastWords words;
  MarkedResources marked{-1, -1, -1, -1};
  ptx::LaunchedGrids launched;  ///< on the SIMT machine, where it runs PTX
  ModuleTiming timing;          ///< where the run is timed

  void fail(ModuleStatus why, const char* text);
};

/// Describes the device and runs `run`, filling `record`, to which its message and timing go.
void run_in_this_process(const Module& module, ModuleRun& run, RunRecord& record);

}  // namespace lanescope

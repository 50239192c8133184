#pragma once

#include <cstdio>
#include <string>

#include "debug/dump/dump.h"
#include "debug/ptx/runtime_entry.h"
#include "gates/module/module.h"
#include "gates/process/marked_cuda.h"
#include "gates/process/run_memory.h"

namespace lanescope {

namespace ptx {
struct Lookout;
struct MarkerRun;
}  // namespace ptx

/// What a module's process leaves besides the buffers: the head of a RunMemory.
struct RunRecord;

/// Bytes of the head of the RunMemory that run_isolated takes.
std::size_t run_record_bytes();

struct IsolatedRun {
  ModuleRun run;  ///< its buffers lie in `memory`; its message goes to RunEnd
  const RunMemory& memory;
  /// Without an end of a block for so long (cuda and kernels that do not run on the SIMT machine:
  /// without an end) the kernel is ended.
  double timeout_seconds = 0;
  std::FILE* printed = nullptr;  ///< takes what the kernel prints; nullptr: stderr
  simt::Checker* checker = nullptr;
  const ptx::MarkerRun* markers = nullptr;  ///< of a marked kernel
  /// Bytes of an output of a kernel that the SIMT machine runs as PTX, and a file that takes what
  /// they came through (debug/ptx/slice.h); 0: none.
  const std::byte* slice = nullptr;
  std::size_t slice_bytes = 0;
  int slice_file = -1;
  const ptx::Lookout* lookout = nullptr;  ///< numbers that the SIMT machine looks for in it
  /// Of each launch of PTX on the SIMT machine the last blocks alone, as many as in these.
  const ptx::LaunchedGrids* ends_of = nullptr;
  std::int64_t items = 0;     ///< RunSettings::items
  double seconds_in_all = 0;  ///< on sim, however many blocks end; 0: as long as it takes
};

/// How it ended.
struct RunEnd {
  ModuleStatus status = ModuleStatus::ok;
  std::string message;            ///< why, where the status is not ok
  Stop stop;                      ///< what broke it off, with kernel_fault
  std::string device, arch;       ///< where it ran
  MarkedResources marked{};       ///< of a marked kernel on a GPU
  ptx::LaunchedGrids launched{};  ///< on the SIMT machine, where it runs PTX
  bool too_slow = false;          ///< it took longer than seconds_in_all, though blocks ended
};

/// Runs a module's kernel in a process of its own: whatever it does, this one goes on, and what the
/// kernel wrote is in `memory`. On sim that is a new process per run, on cuda one that lives until
/// a kernel faults, since a CUDA context takes its time (gates/process/cuda_process.h). A kernel
/// that faults on cuda takes the device's memory with it: `memory` then holds what it held before,
/// and the same with `wish.run.surviving` keeps what is written, at the speed of the host's memory.
RunEnd run_isolated(const Module& module, const IsolatedRun& wish);

}  // namespace lanescope

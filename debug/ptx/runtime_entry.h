#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "debug/simt/numerics.h"
#include "reference/site.h"

namespace lanescope::simt {
class Checker;
struct LastWords;
}  // namespace lanescope::simt

namespace lanescope::ptx {

struct Lookout;
struct MarkerRun;

/// Memory that the slots of a MarkerRun lie in.
struct MarkerBuffer {
  const std::byte* begin = nullptr;
  std::int64_t bytes = 0;
};
/// Of a run: what the gate leaves, what is traced, what is injected, the holders.
using MarkerBuffers = std::array<MarkerBuffer, 4>;
/// The variable of a rewritten module that holds where the device has them, 8 bytes each.
inline constexpr const char* marker_buffers_name = "lanescope_buffers";
/// A register that its kernels with markers have.
inline constexpr const char* marker_register = "%ls_block";

/// The grids that a program launched one after the other, in blocks.
struct LaunchedGrids {
  static constexpr int most = 16;
  int count = 0;  ///< also of those that have no place here
  std::array<std::array<std::uint32_t, 3>, most> blocks = {};
};

/// How the device of a process runs kernels.
struct RunSettings {
  int workers = 0;             ///< OS threads, 0: one per core
  std::uint64_t schedule = 0;  ///< 0: warps run in their order; else a seed of another
  simt::Checker* checker = nullptr;
  simt::TensorCoreRule tensor_core = simt::hopper_rule;
  double timeout_seconds = 0;  ///< that a block may take, 0: any
  /// What its markers trace to and take from, and the PTX that has them, which stands in for what
  /// the module holds.
  const MarkerRun* markers = nullptr;
  const char* marked_ptx = nullptr;
  /// Bytes whose way is told (ptx/slice.h) and a file that takes it; 0: none.
  const std::byte* slice = nullptr;
  std::size_t slice_bytes = 0;
  int slice_file = -1;
  LaunchedGrids* launched = nullptr;  ///< takes the grids
  /// Of each launch the last blocks alone are run, along each dimension as many as the launch here
  /// has; needs `launched`.
  const LaunchedGrids* ends_of = nullptr;
  /// A grid along x alone that has fewer blocks, which take items by turns, has one for each of so
  /// many items; 0: as it is launched.
  std::int64_t items = 0;
  const Lookout* lookout = nullptr;  ///< numbers that are looked for (ptx/recognise.h)
};

/// What kernels have cost: instructions of warps, and CPU time in which they ran.
struct Work {
  std::int64_t instructions = 0;
  double cpu_seconds = 0;
};

/// The file of the machine's CUDA runtime, whose name is that of CUDA's own.
inline constexpr const char* runtime_library = "libcudart.so.13";
/// That of the driver, which programs may be linked with too.
inline constexpr const char* driver_library = "libcuda.so.1";

/// What the program asks of that library where it has loaded it. The library has the machine in
/// it, whose structures the program shares.
struct RuntimeEntry {
  /// Hash of the headers of what they share: first, so that it is found in any build.
  const char* headers;
  /// Whether a module is loaded that uses it.
  bool (*has_modules)();
  /// Before a module's code runs: how kernels run, and where faults of this process are noted.
  void (*begin)(const RunSettings& settings, simt::LastWords& words);
  /// What went wrong in a kernel, or before it could run; empty where nothing has.
  const char* (*failure)();
  /// Whether it was the module or its launch that is at fault, not the kernel as it ran.
  bool (*refused)();
  /// Whether it went wrong behind an allocation that had failed.
  bool (*lacked_memory)();
  /// Why the first launch that was refused was: its kernel never ran; empty where none was.
  const char* (*refused_launch)();
  Work (*work)();
  /// Writes the text of the file `ptx` for a GPU, its markers instructions (ptx/rewrite_markers.h),
  /// to `file`. False where that cannot be: `why` takes the reason.
  bool (*rewrite)(const char* ptx, const MarkerRun& run, const MarkerBuffers& buffers, int file,
                  char* why, std::size_t why_bytes);
  /// Why the markers of the file `ptx` are not those of what the shared library `module` was
  /// compiled from (ptx/marked_text.h); empty where they are.
  void (*compare)(const char* module, const char* ptx, char* why, std::size_t why_bytes);
  /// A line per place in the source where the markers of the file `ptx` name values of a site, and
  /// where those are computed (ptx/marked_text.h).
  void (*marked_lines)(const char* ptx, SiteId site, char* lines, std::size_t bytes);
};

/// The type of the function `lanescope_runtime`, the one name of the library that is not CUDA's.
using RuntimeEntryFunction = const RuntimeEntry*();

}  // namespace lanescope::ptx

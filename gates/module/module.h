#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/gate.h"
#include "reference/problem.h"
#include "reference/site.h"
#include "reference/window.h"

namespace lanescope {

namespace simt {
class Checker;
struct RuleSet;
}  // namespace simt

/// Changes whenever anything in this file does.
inline constexpr int module_abi = 15;

/// What a device can do at best, as its driver says.
struct ModuleDevice {
  int multiprocessors;
  int clock_khz;         ///< the highest
  int memory_clock_khz;  ///< the highest; two transfers a clock
  int memory_bus_bits;
  int l2_bytes;
};

/// How long the passes take on a device, launched again and again on the same data.
struct ModuleTiming {
  static constexpr int most_samples = 1000;
  int samples;  ///< wanted; most_samples or fewer
  /// Filled by the module.
  int launches;                      ///< of all passes, in each sample
  float microseconds[most_samples];  ///< of one launch of all passes
  ModuleDevice device;
};

/// Bytes before and behind every buffer of a run that nothing may touch, in the host's memory and
/// in that of a device: they hold a pattern, and go where the buffer goes, to and fro.
inline constexpr std::int64_t guard_bytes = 1 << 16;

/// A buffer of a run: host memory aligned to 16 bytes; without bytes it is not to be read.
struct ModuleBuffer {
  void* data;
  std::int64_t bytes;
};

/// The buffer with its guards.
inline void* guarded(const ModuleBuffer& buffer) {
  return static_cast<unsigned char*>(buffer.data) - guard_bytes;
}
inline std::size_t guarded_bytes(const ModuleBuffer& buffer) {
  return static_cast<std::size_t>(buffer.bytes + 2 * guard_bytes);
}

/// One run of a module's kernel. D is the module's head_dim: rows have zeros from problem.d on.
struct ModuleRun {
  Problem problem;              ///< every side fits an int
  int splits;                   ///< 1 but for kernels in two passes, as is heads_per_tile
  int heads_per_tile;           ///< (kernels/parts/row_tile.h)
  std::int64_t blocks;          ///< of the first pass's grid
  std::int64_t combine_blocks;  ///< of the combine pass's grid
  std::int64_t first_block;     ///< sim: of the first pass's grid; what lies before is not run
  // What the kernel reads.
  ModuleBuffer q;         ///< [batch, heads, len_q, D]
  ModuleBuffer k;         ///< [batch, heads_kv, len_kv, D]
  ModuleBuffer v;         ///< as k
  ModuleBuffer q_scale;   ///< f32 [batch, heads]; of e4m3 inputs, else without bytes
  ModuleBuffer k_scale;   ///< f32 [batch, heads_kv]; likewise
  ModuleBuffer v_scale;   ///< as k_scale
  ModuleBuffer injected;  ///< slots that the gate takes, window: all blocks and tiles
  // What it writes, in and out: unwritten elements keep their poison.
  ModuleBuffer o;         ///< as q, of the operand type
  ModuleBuffer lse;       ///< f32 [batch, heads, len_q]
  ModuleBuffer partials;  ///< slots that the passes share, window: all; given to combine_only
  ModuleBuffer left;      ///< slots that the gate leaves, window: all blocks and tiles
  ModuleBuffer traced;    ///< slots of the trace buffer
  /// Of a marked kernel: the threads that traced the values (gates/run/marked_sites.h).
  ModuleBuffer holders;
  Window all;                  ///< of injected, partials and left
  Window window;               ///< of traced
  int workers;                 ///< sim: OS threads, 0: one per core
  std::uint64_t schedule;      ///< sim: 0, or the seed of another order of the lanes
  int surviving;               ///< cuda: results stay in host memory, where they outlive a fault
  simt::Checker* checker;      ///< sim: the memory checker, or null
  const simt::RuleSet* rules;  ///< sim: what it rounds like
  ModuleTiming* timing;        ///< cuda: filled where it is not null, results are then the last's
  /// Filled by the module.
  char* message;  ///< why it failed, where it did
  int message_bytes;
};

inline constexpr ModuleBuffer ModuleRun::*module_inputs[] = {
    &ModuleRun::q,       &ModuleRun::k,       &ModuleRun::v,       &ModuleRun::q_scale,
    &ModuleRun::k_scale, &ModuleRun::v_scale, &ModuleRun::injected};
inline constexpr ModuleBuffer ModuleRun::*module_results[] = {
    &ModuleRun::o, &ModuleRun::lse, &ModuleRun::partials, &ModuleRun::left, &ModuleRun::traced};

/// A function that a cuda module launches.
struct ModulePass {
  const char* name;           ///< "kernel": the function is called kernel_entry
  int threads;                ///< of a block
  std::int64_t shared_bytes;  ///< of a block, asked for at the launch
  int blocks;  ///< that fit on a multiprocessor, says the driver; −1 where no device answers
};

enum class ModuleStatus : int {
  ok = 0,
  kernel_fault = 1,
  no_device = 2,
  no_memory = 3,
  refused = 4,       ///< the kernel does not take such a problem
  not_executed = 5,  ///< the SIMT machine does not execute the kernel's code, whatever the problem
};

/// What one module is and does. A module exports `lanescope_module`, which returns it.
struct Module {
  int abi;
  const char* kernel;  ///< "mma"
  Gate gate;
  const char* backend;  ///< "sim" or "cuda"
  ElementType dtype;    ///< of Q, K and V
  Products products;
  int head_dim, br, bc, threads;
  bool combines;  ///< in two passes: blocks of a split of the keys each, then the combine pass
  std::int64_t shared_bytes;
  const char* trace;        ///< "on", "off" or "printf"
  bool checked;             ///< compiled for the memory checker
  const char* source_hash;  ///< of the files that went into the build
  const char* compile_flags;
  const Site* sites;
  int site_count;
  /// (row, col) in the tile of a register of a lane.
  void (*coordinate)(SiteId site, int warp, int lane, int reg, int* row, int* col);
  /// The thread that wrote an element of shared memory.
  int (*owner)(SiteId site, int row, int col);
  /// The element of shared memory that holds the byte at `offset`: the name of its tile, row and
  /// column. False where it is padding, or the kernel names no tiles.
  bool (*shared_element)(std::int64_t offset, const char** tile, int* row, int* col);
  /// A name of the device that `run` would use; ok, or no_device with a reason.
  ModuleStatus (*device)(char* name, int name_bytes, char* arch, int arch_bytes);
  ModuleStatus (*run)(ModuleRun* run);
  /// Fills in the functions that it launches, `most` or fewer, and returns their number; sim: 0.
  int (*passes)(ModulePass* passes, int most);
  /// The file of the PTX whose markers are its sites (gates/build/marked_module.h); nullptr: it has
  /// none.
  const char* marked_ptx = nullptr;
  /// Of a kernel whose blocks take several items each: in how many blocks, as many as the largest
  /// device has room for; 0: each item has a block.
  int resident_blocks = 0;
  /// Its lse is in base 2: in dumps it is natural.
  bool lse_base_2 = false;
};

}  // namespace lanescope

extern "C" const lanescope::Module* lanescope_module();

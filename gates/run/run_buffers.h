#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "debug/simt/checker.h"
#include "gates/process/run_memory.h"
#include "gates/run/run_plan.h"

namespace lanescope {

/// The buffers of a run (gates/module/module.h says what each is), in memory that outlives the
/// process that runs it.
class RunBuffers {
 public:
  using Member = ModuleBuffer ModuleRun::*;

  /// Fills those that the kernel reads: with `inputs`, and with what the gate takes from the
  /// reference, which `threads` threads compute. The others hold poison.
  RunBuffers(const Module& module, const RunPlan& plan, const Inputs& inputs, int threads);

  const RunMemory& memory() const { return memory_; }
  std::byte* data(Member member) const;
  /// Has `run` use them.
  void give_to(ModuleRun& run) const;
  /// After the run: where the guards of buffers changed, a line for each; empty: nowhere. The
  /// pattern itself, written there, goes unnoticed.
  std::string strays() const;
  /// The same of the buffers that are only to be read.
  std::string changed_inputs() const;
  /// What the memory checker knows them by; the partials site by site.
  std::vector<simt::Region> regions(const RunPlan& plan) const;

 private:
  struct Buffer {
    Member member;
    const char* name;
    std::int64_t bytes;
    simt::Region::Use use;
    int element = 4;                         ///< its bytes
    std::vector<std::uint64_t> before = {};  ///< of an input: a hash of each piece of it
  };
  static std::vector<Buffer> list(const Module& module, const RunPlan& plan, const Inputs& inputs);
  static std::vector<std::int64_t> sizes(const std::vector<Buffer>& buffers);

  std::vector<Buffer> buffers_;
  RunMemory memory_;
};

}  // namespace lanescope

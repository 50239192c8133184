#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "debug/dump/site_slots.h"
#include "gates/process/isolated_run.h"
#include "gates/run/run_options.h"
#include "gates/run/slot_layout.h"

namespace lanescope {

inline std::int64_t items_of(const Problem& problem, const Module& module) {
  return problem.batch * problem.heads * ((problem.len_q + module.br - 1) / module.br);
}

/// The run of the last block of a far problem, of one split; it has no buffers yet.
inline ModuleRun run_of_last_block(const Module& module, const Problem& far,
                                   const RunRequest& request) {
  const std::int64_t blocks = items_of(far, module);
  ModuleRun run{};
  run.problem = far;
  run.splits = run.heads_per_tile = 1;
  run.blocks = run.combine_blocks = blocks;
  run.first_block = blocks - 1;
  run.all = {0, blocks, 0, 1, 0, module.threads / 32, 0, 32};
  run.window = {0, 0, 0, 0, 0, 0, 0, 0};
  run.workers = 1;
  run.schedule = request.schedule;
  run.rules = request.rules;
  return run;
}

/// The buffers of a far run, sparse but for their ends.
class FarBuffers {
 public:
  FarBuffers(const Module& module, const Problem& far, const Window& all)
      : width_(module.head_dim),
        element_(size_of(module.dtype)),
        layout_(module, is_shared_by_passes, all),
        sizes_{far.queries() * width_ * element_,
               far.keys() * width_ * element_,
               far.keys() * width_ * element_,
               far.queries() * width_ * element_,
               far.queries() * 4,
               layout_.bytes()},
        memory_(run_record_bytes(), sizes_, RunMemory::Fill::guards) {}

  const RunMemory& memory() const { return memory_; }
  /// The last `bytes` of a buffer.
  std::byte* last(std::size_t buffer, std::int64_t bytes) const {
    return memory_.buffer(buffer) + sizes_[buffer] - bytes;
  }
  /// Marks the partials of a block as never written.
  void poison_partials(std::int64_t block) const {
    for_partials(block, [](std::byte* at) { std::memcpy(at, &poison32, sizeof poison32); });
  }
  /// Their bits.
  std::vector<std::uint32_t> partials(std::int64_t block) const {
    std::vector<std::uint32_t> all;
    for_partials(block, [&](const std::byte* at) {
      std::memcpy(&all.emplace_back(), at, sizeof all.back());
    });
    return all;
  }
  void give_to(ModuleRun& run) const {
    ModuleBuffer ModuleRun::*const members[] = {&ModuleRun::q,   &ModuleRun::k,
                                                &ModuleRun::v,   &ModuleRun::o,
                                                &ModuleRun::lse, &ModuleRun::partials};
    for (std::size_t i = 0; i < std::size(members); ++i) {
      run.*members[i] = {memory_.buffer(i), sizes_[i]};
    }
    // What the gate does not have, and what is not traced: empty.
    for (const auto member : {&ModuleRun::q_scale, &ModuleRun::k_scale, &ModuleRun::v_scale,
                              &ModuleRun::injected, &ModuleRun::left, &ModuleRun::traced}) {
      run.*member = {memory_.buffer(0), 0};
    }
  }

 private:
  template <class Take>
  void for_partials(std::int64_t block, const Take& take) const {
    for (std::size_t i = 0; i < layout_.sites().size(); ++i) {
      const Site& site = layout_.sites()[i];
      for (int row = 0; row < site.rows; ++row) {
        for (int col = 0; col < site.cols; ++col) {
          take(memory_.buffer(5) + layout_.shared_offset(i, block, 0, row, col));
        }
      }
    }
  }

  int width_, element_;
  SlotLayout layout_;
  std::vector<std::int64_t> sizes_;
  RunMemory memory_;
};

}  // namespace lanescope

#include "gates/run/far_head.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "debug/dump/site_slots.h"
#include "gates/process/isolated_run.h"
#include "gates/run/launch.h"
#include "gates/run/slot_layout.h"
#include "reference/error.h"

namespace lanescope {
namespace {

bool is_shared_by_passes(Gate gate, const Site& site) {
  return has(gate, site.id) && is_partial(site.id);
}

/// Heads of so many rows each that those before the last pass 2^32 elements: then an index of 32
/// bits is too narrow with a sign and without.
std::int64_t heads_beyond(std::int64_t rows, int width) {
  return (std::int64_t{1} << 32) / (rows * width) + 2;
}

/// The buffers of a far run, sparse but for their ends.
class FarBuffers {
 public:
  FarBuffers(const Module& module, const Problem& far, const Window& all)
      : width_(module.head_dim),
        element_(size_of(module.dtype)),
        partials_(SlotLayout(module, is_shared_by_passes, all).bytes()),
        sizes_{far.queries() * width_ * element_,
               far.keys() * width_ * element_,
               far.keys() * width_ * element_,
               far.queries() * width_ * element_,
               far.queries() * 4,
               partials_},
        memory_(run_record_bytes(), sizes_, RunMemory::Fill::guards) {}

  const RunMemory& memory() const { return memory_; }
  /// The end of a buffer, `rows` rows of `row_bytes` before it.
  std::byte* last(std::size_t buffer, std::int64_t bytes) const {
    return memory_.buffer(buffer) + sizes_[buffer] - bytes;
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
  int width_, element_;
  std::int64_t partials_;
  std::vector<std::int64_t> sizes_;
  RunMemory memory_;
};

void compare(const Tensor& got, const Tensor& want, SiteId site, FarHead& head) {
  for (std::int64_t i = 0; i < want.size(); ++i) {
    ++head.compared;
    if (got.bits(i) == want.bits(i)) continue;
    ++head.differing;
    head.unwritten += is_unwritten(got, i);
    if (head.first) continue;
    head.first = site;
    head.got = got.at(i);
    head.want = want.at(i);
  }
}

}  // namespace

std::optional<FarHead> run_far_head(const RunOptions& options, bool far_keys) {
  RunOptions near = options;
  near.splits.reset();
  near.where.clear();
  near.preset.clear();
  near.shape = "b=1,h=1,s=16,d=64";
  const PreparedRun first = prepare(near);
  const Module& module = *first.module;
  if (std::string_view(module.backend) != "sim" || module.dtype == ElementType::e4m3 ||
      *module.source_hash == 0) {
    return std::nullopt;
  }
  near.shape = "b=1,h=1,s=" + std::to_string(module.br) + ",skv=" + std::to_string(module.bc) +
               ",d=" + std::to_string(module.head_dim);
  near.preset.clear();
  near.causal = false;
  if (module.combines) near.splits = 1;
  const PreparedRun run = prepare(near);
  const Dump alone = launch(*run.module, run.module_name, run.request);
  if (!alone.info.incomplete.empty()) return std::nullopt;

  FarHead head;
  const Problem& one = run.request.problem;
  head.problem = one;
  head.problem.heads = heads_beyond(std::min(one.len_q, one.len_kv), module.head_dim);
  if (far_keys) head.problem.heads_kv = head.problem.heads;
  const std::int64_t blocks = head.problem.heads;
  head.block = blocks - 1;
  ModuleRun far{};
  far.problem = head.problem;
  far.splits = far.heads_per_tile = 1;
  far.blocks = far.combine_blocks = blocks;
  far.first_block = head.block;
  far.all = {0, blocks, 0, 1, 0, module.threads / 32, 0, 32};
  far.window = {0, 0, 0, 0, 0, 0, 0, 0};
  far.workers = 1;
  far.schedule = run.request.schedule;
  far.rules = run.request.rules;
  try {
    const FarBuffers buffers(module, head.problem, far.all);
    buffers.give_to(far);
    const std::int64_t q_bytes = one.queries() * module.head_dim * size_of(module.dtype);
    const std::int64_t k_bytes = one.keys() * module.head_dim * size_of(module.dtype);
    copy_rows(*alone.find("q"), module.head_dim, buffers.last(0, q_bytes));
    copy_rows(*alone.find("k"), module.head_dim, buffers.last(1, k_bytes));
    copy_rows(*alone.find("v"), module.head_dim, buffers.last(2, k_bytes));
    const auto poison = [](std::byte* from, std::int64_t bytes) {
      auto* words = reinterpret_cast<std::uint32_t*>(from);
      std::fill(words, words + bytes / 4, poison32);
    };
    poison(buffers.last(3, q_bytes), q_bytes);
    poison(buffers.last(4, one.queries() * 4), one.queries() * 4);
    const RunEnd end = run_isolated(
        module, {far, buffers.memory(), run.request.timeout_seconds, nullptr, nullptr, nullptr});
    if (end.status == ModuleStatus::kernel_fault) head.fault = end.message;
    if (end.status != ModuleStatus::ok && head.fault.empty()) return std::nullopt;
    const Tensor &o = *alone.find("o_final"), *lse = alone.find("lse");
    compare(take_rows(o.type, o.dims, module.head_dim, buffers.last(3, q_bytes)), o,
            SiteId::o_final, head);
    if (lse) {
      compare(take_rows(lse->type, lse->dims, static_cast<int>(one.len_q),
                        buffers.last(4, one.queries() * 4)),
              *lse, SiteId::lse, head);
    }
  } catch (const EnvironmentError&) {
    return std::nullopt;  // no such memory
  }
  return head;
}

}  // namespace lanescope

#include "gates/run/run_plan.h"

#include <limits>
#include <string_view>

#include "gates/process/run_memory.h"
#include "gates/run/dump_of_run.h"
#include "reference/error.h"

namespace lanescope {
namespace {

bool is_no_site(Gate, const Site&) { return false; }

void check_fits(const Module& module, const RunRequest& request) {
  const Problem& p = request.problem;
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const bool given = !request.inputs.q.dims.empty();
  if (given && request.inputs.type() != module.dtype) {
    throw UsageError(std::string("the module takes ") + name_of(module.dtype) +
                     ", the inputs are " + name_of(request.inputs.type()));
  }
  if (p.d > module.head_dim) {
    throw UsageError("d=" + std::to_string(p.d) + " is more than the module's head dimension " +
                     std::to_string(module.head_dim) +
                     ": give --shape d=" + std::to_string(module.head_dim) + " or less");
  }
  for (const std::int64_t side : {p.batch, p.heads, p.len_q, p.len_kv}) {
    if (side > most - module.br - module.bc) throw UsageError("a side of the shape passes 2^31");
  }
  if (!prints(module) && (request.warps || request.lanes)) {
    throw UsageError(
        "--where warp=, lane= narrows printed text (-Dtrace=printf); a dump is narrowed "
        "by block= and tile=, and `show --warp --lane` picks from it");
  }
}

Range checked(const std::optional<Range>& wish, std::int64_t count, const char* what) {
  if (!wish) return {0, count};
  if (wish->begin < 0 || wish->end > count || wish->begin >= wish->end) {
    throw UsageError(std::string("--where ") + what + ": this run has " + what + " 0.." +
                     std::to_string(count - 1));
  }
  return *wish;
}

Window window_of(Range blocks, Range tiles, Range warps, Range lanes) {
  return {blocks.begin,
          blocks.end,
          static_cast<int>(tiles.begin),
          static_cast<int>(tiles.end),
          static_cast<int>(warps.begin),
          static_cast<int>(warps.end),
          static_cast<int>(lanes.begin),
          static_cast<int>(lanes.end)};
}

/// Bytes of the slots and of the tensors, which lie in the run's memory and in the dump; the inputs
/// once more, as they were given.
std::int64_t bytes_needed(const Module& module, const RunPlan& plan) {
  const Problem& p = plan.info.problem;
  const std::int64_t row_bytes = std::int64_t{module.head_dim} * size_of(module.dtype);
  const std::int64_t o_row_bytes =
      std::int64_t{module.head_dim} * size_of(operand_type(module.dtype));
  return 2 * (plan.taken.bytes() + plan.left.bytes() + plan.partials.bytes() +
              plan.traced.bytes()) +
         3 * (p.queries() + 2 * p.keys()) * row_bytes + 2 * p.queries() * (o_row_bytes + 4);
}

}  // namespace

bool is_taken(Gate gate, const Site& site) { return takes(gate, site.id) && !is_partial(site.id); }
bool is_left(Gate gate, const Site& site) { return leaves(gate, site.id); }

bool prints(const Module& module) { return std::string_view(module.trace) == "printf"; }

RunPlan plan_run(const Module& module, const std::string& module_name, const RunRequest& request) {
  check_fits(module, request);
  DumpInfo info = info_of(module, module_name, request);
  const Range blocks{0, info.block_count()}, tiles{0, info.kv_tiles()};
  const Range warps{0, module.threads / 32}, lanes{0, 32};
  info.blocks = checked(request.blocks, blocks.end, "block");
  info.tiles = checked(request.tiles, tiles.end, "tile");
  const Window all = window_of(blocks, tiles, warps, lanes);
  const Window window =
      window_of(info.blocks, info.tiles, checked(request.warps, warps.end, "warp"),
                checked(request.lanes, lanes.end, "lane"));
  const bool fills_buffer = std::string_view(module.trace) == "on";
  RunPlan plan{std::move(info),
               all,
               window,
               SlotLayout(module, is_taken, all),
               SlotLayout(module, is_left, all),
               SlotLayout(module, is_shared_by_passes, all),
               SlotLayout(module, fills_buffer ? traces : is_no_site, window)};
  check_memory(bytes_needed(module, plan));
  return plan;
}

}  // namespace lanescope

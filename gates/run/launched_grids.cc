#include "gates/run/launched_grids.h"

#include <algorithm>
#include <array>

#include "gates/run/far_buffers.h"
#include "reference/error.h"

namespace lanescope {

std::optional<ptx::LaunchedGrids> launched_grids(const PreparedRun& run, const Problem& problem,
                                                 std::int64_t items) {
  static constexpr ptx::LaunchedGrids no_blocks{ptx::LaunchedGrids::most, {}};
  constexpr double seconds = 4;
  const Module& module = *run.module;
  ModuleRun none = run_of_last_block(module, problem, run.request);
  try {
    const FarBuffers buffers(module, problem, none.all);
    buffers.give_to(none);
    IsolatedRun isolated{none, buffers.memory(), std::min(run.request.timeout_seconds, seconds)};
    isolated.ends_of = &no_blocks;
    isolated.items = items;
    const RunEnd end = run_isolated(module, isolated);
    const bool fit = end.launched.count > 0 && end.launched.count <= ptx::LaunchedGrids::most;
    if (end.status != ModuleStatus::ok || !fit) return std::nullopt;
    return end.launched;
  } catch (const EnvironmentError&) {
    return std::nullopt;  // no such memory
  }
}

bool takes_turns(const ptx::LaunchedGrids& grids, std::int64_t items) {
  constexpr std::int64_t heads_at_a_time = 64;
  std::int64_t blocks = 0;
  for (const auto& [x, y, z] : grids.blocks) blocks += std::int64_t{x} * y * z;
  return heads_at_a_time * blocks < items;
}

bool take_whole_sides(const ptx::LaunchedGrids& few, const ptx::LaunchedGrids& far,
                      ptx::LaunchedGrids& ends) {
  constexpr std::uint32_t longest = 64;
  if (few.count != far.count || few.count != ends.count) return false;
  bool any = false;
  for (std::size_t grid = 0; grid < static_cast<std::size_t>(few.count); ++grid) {
    for (std::size_t side = 0; side < 3; ++side) {
      const std::uint32_t blocks = few.blocks[grid][side];
      std::uint32_t& taken = ends.blocks[grid][side];
      if (blocks != far.blocks[grid][side] || blocks > longest || blocks <= taken) continue;
      taken = blocks;
      any = true;
    }
  }
  return any;
}

bool has_block_per_item(const RunOptions& options) {
  const PreparedRun run = prepare(options);
  const Problem& problem = run.request.problem;
  const std::optional<ptx::LaunchedGrids> grids = launched_grids(run, problem);
  if (!grids) return false;
  const auto last = grids->blocks.begin() + grids->count;
  return std::all_of(grids->blocks.begin(), last, [&](const std::array<std::uint32_t, 3>& grid) {
    return std::int64_t{grid[0]} * grid[1] * grid[2] >= items_of(problem, *run.module);
  });
}

}  // namespace lanescope

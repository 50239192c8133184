#pragma once

#include <cstdint>
#include <optional>

#include "debug/ptx/runtime_entry.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// The grids that a kernel in PTX launches for `problem`; none of their blocks runs. `items`: of a
/// grid whose blocks take items by turns, as RunSettings has them. Nothing where it does not take
/// the problem, where it launches more grids than there are places for, or on another machine than
/// the SIMT one.
std::optional<ptx::LaunchedGrids> launched_grids(const PreparedRun& run, const Problem& problem,
                                                 std::int64_t items = 0);

/// Whether blocks take items by turns: they are far fewer than those, even of kernels that take
/// several heads at a time. The last of them would go through many.
bool takes_turns(const ptx::LaunchedGrids& grids, std::int64_t items);

/// Has `ends`, a part of the grids of both problems, take all blocks along the sides that are as
/// long in `few` as in `far`, and not very long. False where it does so already.
bool take_whole_sides(const ptx::LaunchedGrids& few, const ptx::LaunchedGrids& far,
                      ptx::LaunchedGrids& ends);

/// Whether no block of a kernel in PTX goes on to a second item of the problem of `options`.
bool has_block_per_item(const RunOptions& options);

}  // namespace lanescope

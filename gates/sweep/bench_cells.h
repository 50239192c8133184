#pragma once

#include <string>

#include "gates/sweep/sweep.h"

namespace lanescope {

/// Judges and times the cells of `plan`, on the GPU and so one after the other, as `bench` does: a
/// cell that is not right is not timed. `peer`: the path of an untraced module (a library's kernel
/// in gates/module/plain_kernel.h, for one) that is judged and timed on the same inputs; empty:
/// none. Goes on from the results file as `sweep` does. Throws Error.
SweepReport bench_cells(const SweepOptions& options, const SweepPlan& plan, int repeats,
                        const std::string& peer);

}  // namespace lanescope

#pragma once

#include <cstdint>

#include "debug/dump/dump.h"
#include "debug/ptx/marker_run.h"
#include "gates/module/module.h"

namespace lanescope {

// The values of a marked kernel (gates/build/marked_module.h) lie by their place in the tile, as
// the markers say it. Beside them lies which thread it was that said so: that is known once the
// kernel has run.

/// Bytes of ModuleRun::holders: an int16 for each value of a tile, of each site.
std::int64_t holder_bytes(const Module& module);

/// What the machine needs to know of the buffers of `run`.
ptx::MarkerRun marker_run_of(const Module& module, const ModuleRun& run);

/// Has the dump of a marked kernel say which lanes held what: a site in registers becomes [block,
/// tile, warp, lane, reg], the registers of a lane being what it traced, by row and column. An
/// element that no lane ever traced counts as that of the lane that traced its row's first; a site
/// that none did stays as it was, [block, tile, row, col].
void settle_marked(const Module& module, const std::int16_t* holders, Dump& dump);

}  // namespace lanescope

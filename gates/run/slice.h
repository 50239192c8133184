#pragma once

#include <optional>
#include <string>
#include <vector>

#include "debug/judge/diff.h"
#include "debug/text/json.h"
#include "debug/text/text.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// What a wrong element of the output came through, of a kernel that runs as PTX on the SIMT
/// machine (debug/ptx/slice.h).
struct OutputSlice {
  Divergence at;                     ///< the element
  std::int64_t block = -1;           ///< of the grid, that wrote it
  std::vector<std::string> lines;    ///< of the source, the last that ran first
  std::vector<std::string> sources;  ///< "k: rows 0 to 63 of head 0"
  /// Values on the way that markers name, as judged beside what the stage received: how many, and
  /// the first of them in the order of the run that is wrong.
  std::int64_t marked = 0;
  std::optional<Divergence> first_wrong;
};

/// Runs the kernel of `dump` once more and follows the first wrong element of its output back.
/// Throws UsageError where the kernel does not run as PTX, or no element is wrong.
OutputSlice slice_output(PreparedRun& run, const Dump& dump, const DiffReport& report);

std::string slice_text(const OutputSlice& slice, const Style& style);
/// {batch, head, query, col, block, lines, sources, marked, first_wrong}; first_wrong: {site, tile,
/// block, warp, lane, row, col, got, want, bound} or null.
Json slice_json(const OutputSlice& slice);

}  // namespace lanescope

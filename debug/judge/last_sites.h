#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "debug/judge/diff.h"

namespace lanescope {

/// Of the lane that dump.info.stop names, where it names one, then of every block and warp of a
/// checked dump, in their order. What a run that broke off left says how far it came.
std::vector<LastSite> last_sites(const Dump& dump);

/// A line for people per block, blocks that came equally far in one; at most `most` lines and one
/// that counts the rest: "block 1: warp 0: k_smem of tile 1; warp 1: m of tile 1".
std::vector<std::string> last_site_lines(const std::vector<LastSite>& sites, std::size_t most = 8);

/// Where a run that broke off was: the site of its warp's after the last one that the lane named in
/// dump.info.stop reached; where none is named, after the earliest of those that warps reached
/// which had begun; where none had, the first of all. Nothing where all had ended.
std::optional<Divergence> place_behind_last_site(const Dump& dump,
                                                 const std::vector<LastSite>& sites);

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug/ptx/term_replay.h"

namespace lanescope::ptx {

using Instructions = std::vector<std::uint32_t>;  ///< of a program, in their order

/// The loops over tiles of keys, each by its first instruction and its last: the innermost ones
/// that make scores and products with V.
std::map<std::uint32_t, std::uint32_t> loops_over_tiles(const Program& program,
                                                        const Instructions& scores,
                                                        const Instructions& products);

/// Where parts of rows are put together.
struct Merges {
  /// Instructions that do: not those that add a tile's share to that of the tiles before.
  std::set<std::pair<const Program*, std::uint32_t>> at;
  /// Lines of kernels that do and multiply no inputs, and of others those from behind the loop of
  /// the last P·V on, if nothing else is compiled for them.
  std::set<std::string> lines;
};

Merges merges_of(const TermReplay& replay);

}  // namespace lanescope::ptx

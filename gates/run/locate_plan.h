#pragma once

#include <string>
#include <vector>

#include "gates/run/run_options.h"

namespace lanescope {

/// A problem that shows a class of faults.
struct Probe {
  std::string about;
  RunOptions options;
  bool checked = false;   ///< also under the memory checker, where values show nothing
  bool large = false;     ///< takes long, alone or to explain: not run behind a fault
  bool broad = false;     ///< of many classes of faults: run, too, when one is found, for others
  bool by_turns = false;  ///< of items for which a stranger's kernel may have too few blocks
  /// In the place of a shape that the kernel refuses: shows nearly the same.
  std::vector<std::string> other_shapes = {};
};

/// Of a kernel, where no other is given: the problems of the plan are small.
inline constexpr double locate_timeout_seconds = 10;

/// Of the longest sequence: more than a warp has lanes.
inline constexpr int most_tiles = 33;

inline constexpr const char* as_given = "as given";

/// Whether the user asks for a problem of their own.
bool is_given(const RunOptions& options);

/// The problems of `locate`, cheapest first, for tiles of br queries and bc keys, as wide as
/// head_dim where no width is given, with several splits where the kernel combines them, and
/// several items for each of resident_blocks (0: there is one); at last, the other types of inputs
/// that it takes. The first is the one that is given, if any.
std::vector<Probe> plan(const RunOptions& given, int br, int bc, int head_dim, bool combines,
                        int resident_blocks);

}  // namespace lanescope

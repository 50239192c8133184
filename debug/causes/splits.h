#pragma once

#include <cstdint>
#include <string>

#include "debug/causes/flaw_families.h"

namespace lanescope {

/// The keys in parts that blocks of their own go through.
struct Splits {
  std::int64_t count, keys;  ///< how many, and of how many keys
  std::string text;
  /// They take so many keys in turns: blocks a tile, the warps of a block a part of each tile.
  bool by_turns = false;

  PartKeys part_keys() const { return {keys, by_turns ? count : 0}; }
};

/// How the results of such parts are put together; of those of splits.
void add_flaws_of_merges(const DumpInfo& info, const Splits& splits, Flaws& flaws);
/// Those of a log-sum-exp that is made of the parts' alone.
void add_merges_of_log_sums(const Splits& splits, Flaws& flaws);

}  // namespace lanescope

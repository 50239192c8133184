#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "debug/causes/causes.h"
#include "debug/dump/dump.h"

namespace lanescope {

/// A mask with one thing wrong: what rows see by it, in any problem.
struct MaskRule {
  Cause cause;
  std::string text;
  /// Whether `row` of the block at `place` sees `key`.
  std::function<bool(const DumpInfo& info, const BlockPlace& place, std::int64_t row,
                     std::int64_t key)>
      sees;

  /// Whether the scores of a tile that some block visits would be wrong.
  bool shows(const DumpInfo& info) const;
};

/// The masks that kernels are known to have in place of the right one: bounds that are left out or
/// moved, queries and keys that are counted from elsewhere.
std::vector<MaskRule> mask_rules(const DumpInfo& info);

/// The keys of tiles counted from elsewhere than their first: those of `tile` of the block at
/// `place` from any key, those of others by as much per tile.
std::vector<MaskRule> shifted_masks(const DumpInfo& info, const BlockPlace& place,
                                    std::int64_t tile);

/// The right mask, of which a row sees the last `keys` up to its own alone; as it is counted by
/// kernels.
std::vector<MaskRule> window_masks(const DumpInfo& info, std::int64_t keys);

}  // namespace lanescope

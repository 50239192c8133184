#pragma once

#include <cstdint>
#include <limits>
#include <tuple>

#include "reference/site.h"

namespace lanescope {

/// When a value comes to be: its tile, then its site.
using SiteOrder = std::tuple<std::int64_t, SiteId>;

/// Q comes before all tiles, the epilogue after them.
inline SiteOrder order_of(const Site& site, std::int64_t tile) {
  const bool last = site.stage == Stage::epilogue || site.stage == Stage::combine;
  return {last ? std::numeric_limits<std::int64_t>::max() : tile, site.id};
}

}  // namespace lanescope

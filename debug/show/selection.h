#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "debug/dump/dump.h"
#include "debug/show/show.h"

namespace lanescope {

/// What ShowOptions point at, found in a dump.
struct Selection {
  std::string name;  ///< of the tensor
  const Tensor* tensor;
  const DumpSite* site;  ///< nullptr: an input, or an output that is no site
  std::int64_t block, tile;
  std::optional<std::int64_t> warp, lane;

  bool registers() const { return site != nullptr && site->site.space == Space::registers; }
};

/// Throws UsageError, with what there is instead, where `dump` does not have it.
Selection select(const Dump& dump, const ShowOptions& options);

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <vector>

#include "debug/dump/dump.h"
#include "debug/judge/recurrence.h"

namespace lanescope {

enum class TileOrder : std::uint8_t { upwards, downwards, of_sums };

/// How m is made: what there is to be tried, before anything is learnt of it.
struct Candidate {
  Recurrence::Unit scores, maximum;
  int rows;
  bool kept;
  TileOrder order;
  int tiles = 1, chains = 1;
  bool above = false;  ///< by a constant
};

/// All of them, with the fewest differences from the reference first.
std::vector<Candidate> candidates(const DumpInfo& info);

}  // namespace lanescope

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "debug/report/locate_report.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// What was seen of a kernel's ways with numbers.
struct SeenWays {
  bool lacks_rows = false;    ///< rows of Q, K or V that wrong rows need were read by nobody
  bool combines = false;      ///< blocks write outputs of V that others read
  bool lacks_scores = false;  ///< scores of wrong rows were not made
};

/// Which stage takes what a known flaw says of rows that were all read: none where it is of several
/// inputs.
std::optional<Stage> taker_of(const std::string& flaw);

/// Of a kernel that shows its outputs alone, which are wrong in `failed`: how far its numbers were
/// right on the way (gates/run/sightings.h), in the first of these problems in which that can be
/// seen, is added to the evidence. What was seen has the word on the stage: of a known flaw, the
/// outputs alone say it by what such bugs mostly are.
SeenWays tell_numbers(const std::vector<RunOptions>& failed, Location& location);

}  // namespace lanescope

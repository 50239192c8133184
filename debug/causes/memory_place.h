#pragma once

#include "debug/causes/memory_findings.h"
#include "debug/judge/diff.h"

namespace lanescope {

/// Where in the kernel the finding is: the site that lies in the bytes, else the one that the lane
/// works on.
Divergence place_of(const CheckReport& report, const CheckReport::Item& item);

}  // namespace lanescope

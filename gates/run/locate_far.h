#pragma once

#include "debug/causes/diagnose.h"
#include "debug/report/locate_report.h"
#include "gates/run/far_head.h"
#include "gates/run/run_options.h"

namespace lanescope {

/// Of what is wrong in a run with `side` far: what the index is into, as far as it can be told.
/// `queries_hold`: with K and V of one head, it is right.
Diagnosis overflow_of(const FarHead& far, FarSide side, bool queries_hold);

/// Of a kernel that is right in all else: the last head of tensors of more than 2^32 elements, on
/// sim. Adds the run to `location`, and the diagnosis where an index is too narrow; what it could
/// not run, to what was not tried.
void check_far_head(const RunOptions& given, Location& location);

}  // namespace lanescope

#pragma once

#include "debug/causes/scene.h"
#include "gates/run/weigh_terms.h"

namespace lanescope {

/// The known flaw that gives the outputs and has the cause; null where none has.
const Finding* named_flaw(const Diagnosis& diagnosis);

/// Names for what wrong keys, or pairs in the wrong order, come of: the outputs tell which better
/// than the terms.
bool are_alike(Cause a, Cause b);

/// Weighs a fault of terms against what was found of a kernel before, and takes it over where that
/// is less. Terms say which numbers are put together, and not whether the numbers are right;
/// `is_whole`: all that are put together belong together.
void contest_terms(const TermFault& fault, bool is_whole, const SeenWays& seen,
                   const TermsElsewhere& elsewhere, Location& location);

}  // namespace lanescope

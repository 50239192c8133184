#pragma once

#include <vector>

#include "debug/judge/visits.h"
#include "reference/arithmetic.h"

// What the rules of a recurrence share (recurrence_rules.h).
namespace lanescope {

/// Whether all of `held` is within the bounds of `want`; of its size.
bool all_hold(const reference::Array& held, const reference::Bounded& want);

/// By how much, in base 2, a number is off that a kernel holds in another unit, where it
/// `converts`; else 0.
double conversion(bool converts, double value);

/// The finite number that m starts from, as m_prev of the first visit shows it, or m of a row that
/// has seen no key; else -infinity. As it is held.
double start_of(const std::vector<Visit>& visits);

}  // namespace lanescope

#pragma once

#include "gates/run/locate.h"

namespace lanescope {

/// Where values do not say what is wrong, and the compiler warned of an index beyond an array in
/// the lines that make them, that is it: what lies there, of registers, no other run tells.
void take_warned_index(Location& location);

}  // namespace lanescope

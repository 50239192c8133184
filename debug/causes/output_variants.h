#pragma once

#include <optional>

#include "debug/dump/dump.h"
#include "debug/judge/diff.h"
#include "debug/judge/recurrence.h"

namespace lanescope {

/// Of a kernel that shows its outputs alone, not all of which `report`, their diff, finds right:
/// another way to round that a kernel may choose, with which they all are, each within the bound
/// that it had. Nothing where none does that.
std::optional<Recurrence> find_output_variant(const Dump& dump, const DiffReport& report);

}  // namespace lanescope

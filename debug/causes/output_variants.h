#pragma once

#include <optional>
#include <vector>

#include "debug/causes/flaw_trial.h"
#include "debug/dump/dump.h"
#include "debug/judge/diff.h"
#include "debug/judge/recurrence.h"

namespace lanescope {

/// Of a kernel that shows its outputs alone, not all of which `report`, their diff, finds right:
/// another way to round that a kernel may choose, with which they all are, each within the bound
/// that it had. Nothing where none does that. What the kernel does in other problems, `elsewhere`,
/// comes first: a few rows are right by several.
std::optional<Recurrence> find_output_variant(
    const Dump& dump, const DiffReport& report,
    const std::optional<Recurrence>& elsewhere = std::nullopt);

/// Ways to round that a kernel with a bug in one of its outputs may have: those that leave all
/// values right of the other one. Simplest first; none where both outputs are wrong.
std::vector<Recurrence> variants_of_one_output(PlanInputs& inputs,
                                               const std::vector<OutputRow>& rows);

/// The right plans of `inputs` go the variant's way from here on.
void go_by(const Recurrence& variant, PlanInputs& inputs);

}  // namespace lanescope

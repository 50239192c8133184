#pragma once

#include <optional>

#include "debug/judge/diff.h"
#include "debug/judge/recurrence.h"

namespace lanescope {

/// The recurrence that gives every value of `dump`, a checked one of fused or softmax_only, from
/// right scores to right outputs, the simplest one; `report` is its diff. Nothing where none does,
/// where outputs are wrong, or sites that no recurrence makes (loads, partials), or where the
/// kernel declares a recurrence of its own (Site::rescale).
std::optional<Recurrence> find_recurrence(const Dump& dump, const DiffReport& report);

/// The recurrence that gives all of m, alpha, p and l of `dump`, a checked one of fused, from the
/// scores that it holds, whatever else is wrong: one that could leave right outputs with nothing
/// but another rest, tiles upwards or downwards. Where none does, the one that gives m by its start
/// and the order of the tiles (Recurrence::of_maxima). Nothing where that is the reference's.
std::optional<Recurrence> follow_softmax(const Dump& dump, const DiffReport& report);

/// What a run that matches shows of who decides whether m is taken: it always was. Empty where m is
/// not traced.
std::vector<Recurrence::Decision> decisions_of(const Dump& dump);

}  // namespace lanescope

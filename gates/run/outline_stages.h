#pragma once

#include "gates/run/judge_terms.h"
#include "gates/run/locate.h"
#include "gates/run/provenance.h"

namespace lanescope {

/// Where numbers that are not finite were made first, and why, is known.
bool makes_infinity(Cause cause);

/// Of numbers behind the scores that are not put together yet: a merge may have made them.
bool is_behind_scores(std::optional<Stage> stage);

/// Whether numbers are read in shared memory that nobody wrote.
bool reads_unwritten_shared(const Diagnosis& diagnosis);

/// Whether what terms say is done where a merge uses what no kernel left in memory of its own.
bool is_of_unwritten_parts(const TermFault& fault, const Diagnosis& diagnosis);

void set_stage(Stage stage, Diagnosis& diagnosis);

/// Gives what was found the stage of which the kernel does that where it was found, as far as
/// `outline` says more of it than the kernel's code does: of an access, of what nobody wrote, of
/// the first NaN.
void place_by_outline(const Provenance::Outline& outline, Location& location);

/// The same of what terms say.
void place_by_outline(const Provenance::Outline& outline, TermFault& fault);

}  // namespace lanescope

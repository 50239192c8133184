#pragma once

#include <optional>

#include "gates/run/judge_terms.h"
#include "gates/run/provenance.h"
#include "gates/run/wrong_rows.h"
#include "reference/inputs.h"
#include "reference/problem.h"

namespace lanescope {

/// Where numbers of wrong rows first are not what their terms are: a score that is no multiple of
/// q·k, a weight of another scale or base. `rough`: of those that are right but for rounding, too.
std::optional<TermFault> judge_numbers(const Provenance& provenance, const Problem& problem,
                                       const Inputs& inputs, const WrongRows& wrong, bool rough);

}  // namespace lanescope

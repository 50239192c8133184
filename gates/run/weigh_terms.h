#pragma once

#include <functional>

#include "gates/run/judge_terms.h"
#include "gates/run/locate.h"
#include "gates/run/provenance.h"

namespace lanescope {

/// Weighs what terms say against what was found before, and takes it over where that is less.
/// `lacks_rows`: rows were read by nobody. `merges`: lines that put parts of rows together, where
/// the judgement has none.
void weigh_terms(const TermJudgement& judged, bool lacks_rows,
                 const std::function<Provenance::Merges()>& merges, Location& location);

}  // namespace lanescope

#pragma once

#include <functional>

#include "gates/run/judge_terms.h"
#include "gates/run/locate.h"
#include "gates/run/locate_numbers.h"
#include "gates/run/provenance.h"

namespace lanescope {

/// What other runs say of terms, each of which takes some time.
struct TermsElsewhere {
  /// A problem that is followed for where the kernel does what, where the judgement does not say.
  std::function<Provenance::Outline()> outline;
  /// Whether terms meet in the same way where outputs are right.
  std::function<bool(const TermFault&)> is_harmless;
};

/// Weighs what terms say against what was found before, and takes it over where that is less.
void weigh_terms(const TermJudgement& judged, const SeenWays& seen, const TermsElsewhere& elsewhere,
                 Location& location);

}  // namespace lanescope

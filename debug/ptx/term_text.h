#pragma once

#include <string>

#include "debug/ptx/terms.h"

namespace lanescope::ptx {

/// A term in words that read_provenance (gates/run/provenance.h) takes apart: kind, row or unit,
/// unit, set, column, with "/" between them; "-" of none. `of_column`: with its column of V.
std::string text_of(const Terms& terms, TermId id, bool of_column = true);

}  // namespace lanescope::ptx

#pragma once

#include <string>

#include "debug/text/json.h"
#include "debug/text/text.h"

namespace lanescope {

/// What changed from one diff to the next, both as diff_json says them (`before` null: there is
/// none):
///   verdict                               of now
///   newly_wrong newly_right still_wrong   [{stage, site, judgement, failed, compared, before}];
///                                         before: how many failed then
///   first first_before                    the first divergence, or null
///   warnings                              those that were not there before
/// Throws UsageError where they are not what diff_json says.
Json verdict_change(const Json& before, const Json& now);

/// The same as lines for people, the verdict at the end. Throws UsageError where `change` is none.
std::string change_text(const Json& change, const Style& style);

}  // namespace lanescope

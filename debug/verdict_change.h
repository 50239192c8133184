#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "debug/text.h"

namespace lanescope {

/// What changed from one diff to the next, both as diff_json says them (`before` null: there is
/// none):
///   verdict                               of now
///   newly_wrong newly_right still_wrong   [{stage, site, judgement, failed, compared, before}];
///                                         before: how many failed then
///   first first_before                    the first divergence, or null
///   warnings                              those that were not there before
nlohmann::ordered_json verdict_change(const nlohmann::ordered_json& before,
                                      const nlohmann::ordered_json& now);

/// The same as lines for people, the verdict at the end.
std::string change_text(const nlohmann::ordered_json& change, const Style& style);

}  // namespace lanescope

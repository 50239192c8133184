#pragma once

#include <string>

#include "debug/causes/memory_findings.h"
#include "debug/text/json.h"
#include "debug/text/text.h"

namespace lanescope {

/// The whole report for people; the last line is the verdict.
std::string check_text(const CheckReport& report, const Style& style);
/// One finding for people, on several lines.
void item_lines(const CheckReport::Item& item, Page& page);
/// One finding: {"kind", "count", "region", "element", "bytes", "passed": {"site", "tile"},
/// "access":
/// {"access", "line", "block", "warp", "lane"}, "earlier"}; what does not apply is null.
Json item_json(const CheckReport::Item& item);
/// {"kernel", "gate", "shape", "verdict": "clean"|"fault", "findings": [...], "notes": [...]}.
std::string check_json(const CheckReport& report);

}  // namespace lanescope

#pragma once

#include <string>

#include "debug/text/text.h"

namespace lanescope {

/// Prints `text` to stdout; where that is a terminal with fewer lines, through the pager that PAGER
/// names (a command line of the shell), else `less`. An empty PAGER: none.
void print_paged(const std::string& text, const Style& style);

}  // namespace lanescope

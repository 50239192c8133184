#pragma once

#include <string>
#include <string_view>

#include "debug/text/json.h"

namespace lanescope {

/// What a page is made of, each as text.
struct PageParts {
  std::string_view title;
  std::string_view told_by;  ///< what says the same, for who has no script: a command, "... of ..."
  std::string_view body, style, script;
};

/// One HTML file that needs nothing but a browser: frame.html around these, with `data` where the
/// script finds them.
std::string framed_page(const PageParts& parts, const Json& data);

}  // namespace lanescope

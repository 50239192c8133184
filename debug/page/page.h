#pragma once

#include <string>
#include <string_view>

#include "debug/page/page_content.h"

namespace lanescope {

/// A dump and where it lies.
struct NamedDump {
  const Dump& dump;
  std::string_view path;
};

/// `content`, page_content's of `a`, as one HTML file that needs nothing but a browser: the stages
/// with their verdicts, error heat maps, the lanes of a warp, the metadata. With `b`, a dump of the
/// same run, also where the two differ bit for bit; throws as diff_dumps does.
/// Nothing in it is judged or computed anew: its script only reads what is here.
std::string page_html(const NamedDump& a, const PageContent& content, const NamedDump* b = nullptr);

}  // namespace lanescope

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "debug/page/page_content.h"

namespace lanescope {

/// A dump and where it lies.
struct NamedDump {
  const Dump& dump;
  std::string_view path;
};

/// Another dump of the same run, and what diff_dumps says of both.
struct OtherDump : NamedDump {
  std::vector<BitReport> bits;
};

/// `content`, page_content's of `a`, as one HTML file that needs nothing but a browser: the stages
/// with their verdicts, error heat maps, the lanes of a warp, the metadata. With `b` also where the
/// two differ bit for bit.
/// Nothing in it is judged or computed anew: its script only reads what is here.
std::string page_html(const NamedDump& a, const PageContent& content, const OtherDump* b = nullptr);

}  // namespace lanescope

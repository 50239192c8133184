#include "debug/page/frame.h"

#include "page_files.h"

namespace lanescope {
namespace {

/// JSON that may stand in a script element, whatever its strings hold: no "<" is left in it.
std::string script_text(const Json& json) {
  const std::string text = json.dump(-1);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

void put(std::string& html, std::string_view mark, std::string_view text) {
  html.replace(html.find(mark), mark.size(), text);
}

}  // namespace

std::string framed_page(const PageParts& parts, const Json& data) {
  std::string html = page_files::frame;
  put(html, "/* title */", parts.title);
  put(html, "/* style */", parts.style);
  put(html, "/* told by */", parts.told_by);
  put(html, "/* body */", parts.body);
  put(html, "/* script */", parts.script);
  put(html, "/* data */", script_text(data));  // last: it may hold a mark
  return html;
}

}  // namespace lanescope

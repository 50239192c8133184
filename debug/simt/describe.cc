#include "debug/simt/describe.h"

#include <cstdio>

namespace lanescope::simt {

std::string describe(Here here) { return std::string(here.file) + ":" + std::to_string(here.line); }

std::string describe_lanes(std::uint32_t lanes) {
  std::string text;
  for (int i = 0; i < 32; ++i) {
    if (!(lanes >> i & 1)) continue;
    int last = i;
    while (last < 31 && lanes >> (last + 1) & 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(i);
    if (last > i) text += "-" + std::to_string(last);
    i = last;
  }
  return text;
}

std::string describe_mask(std::uint32_t mask) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

}  // namespace lanescope::simt

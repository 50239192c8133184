#include "debug/dump/source_hash.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace lanescope {

std::string hash_sources(const std::filesystem::path& root, const std::vector<std::string>& files) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](const std::string& text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash = (hash ^ 0xff) * 0x100000001b3u;  // no UTF-8 text has this byte
  };
  bool any = false;
  for (const std::string& file : files) {
    std::ifstream in(root / file, std::ios::binary);
    add(file);
    std::ostringstream text;
    if (in.is_open()) text << in.rdbuf();
    add(in.is_open() ? text.str() : "\xff");
    any = any || in.is_open();
  }
  if (!any) return {};
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace lanescope

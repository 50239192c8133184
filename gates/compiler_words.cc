#include "gates/compiler_words.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <vector>

#include "gates/declared_modules.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

/// `file` as the compiler names it, from the build's root on, as it lies below the source root.
std::string short_name(const std::string& file) {
  const fs::path path = (fs::path(LANESCOPE_BUILD_ROOT) / file).lexically_normal();
  const fs::path below = path.lexically_relative(LANESCOPE_SOURCE_ROOT);
  return below.empty() || below.native().starts_with("..") ? path.string() : below.string();
}

bool is_source_line(const std::string& line) { return line.starts_with("  "); }

}  // namespace

std::string compile_errors(std::string_view words, int most) {
  std::vector<std::string> lines;
  static const std::regex colours("\x1b\\[[0-9;]*[mK]");
  std::istringstream in(std::regex_replace(std::string(words), colours, ""));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const bool failed = std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("FAILED: ");
  });
  if (!failed) return {};

  static const std::regex gcc(R"(^(\S[^:]*):(\d+):(\d+): ((fatal )?error: .*)$)");
  static const std::regex nvcc(R"(^(\S[^(]*)\((\d+)\): ((catastrophic )?error.*)$)");
  static const std::regex linker(R"(undefined reference to|cannot find -l|multiple definition of)");
  std::string text;
  int count = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch part;
    std::string error;
    if (std::regex_match(lines[i], part, gcc)) {
      error =
          short_name(part[1]) + ":" + part[2].str() + ":" + part[3].str() + ": " + part[4].str();
    } else if (std::regex_match(lines[i], part, nvcc)) {
      error = short_name(part[1]) + ":" + part[2].str() + ": " + part[3].str();
    } else if (std::regex_search(lines[i], linker)) {
      error = lines[i];
    } else {
      continue;
    }
    if (++count > most) continue;
    text += error + "\n";
    for (int more = 0; more < 2 && i + 1 < lines.size() && is_source_line(lines[i + 1]); ++more) {
      text += lines[++i] + "\n";
    }
  }
  if (count > most) text += "and " + std::to_string(count - most) + " more errors\n";
  if (count > 0) return text;
  for (std::size_t i = lines.size() - std::min<std::size_t>(lines.size(), 8); i < lines.size();
       ++i) {
    text += lines[i] + "\n";
  }
  return text;
}

}  // namespace lanescope

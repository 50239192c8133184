#include "gates/build/compile_errors.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <sstream>
#include <vector>

#include "gates/build/this_build.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

/// `file` as the compiler names it, from the build's root on, as it lies below the source root.
std::string short_name(const std::string& file) {
  const fs::path path = (fs::path(this_build::build_root()) / file).lexically_normal();
  const fs::path below = path.lexically_relative(this_build::source_root());
  return below.empty() || below.native().starts_with("..") ? path.string() : below.string();
}

bool is_source_line(const std::string& line) { return line.starts_with("  "); }

/// `text` without the escape sequences of colours: ESC [ digits m or K.
std::string without_colours(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    if (text.starts_with("\x1b[")) {
      const std::size_t end = text.find_first_not_of("0123456789;", 2);
      if (end != text.npos && (text[end] == 'm' || text[end] == 'K')) {
        text.remove_prefix(end + 1);
        continue;
      }
    }
    plain += text.front();
    text.remove_prefix(1);
  }
  return plain;
}

/// Takes a number and what follows it, `after`, off the front of `text`; empty where it does not
/// begin with them.
std::string take_number(std::string_view& text, std::string_view after) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || !text.substr(digits).starts_with(after)) return {};
  const std::string number(text.substr(0, digits));
  text.remove_prefix(digits + after.size());
  return number;
}

bool begins_with_file(std::string_view line) {
  return !line.empty() && std::isspace(line.front() & 0xff) == 0;
}

/// "FILE:LINE:COLUMN: WORDS" of g++ and clang, shortened, where the words begin with one of
/// `kinds`.
std::optional<std::string> gcc_words(std::string_view line,
                                     std::initializer_list<std::string_view> kinds) {
  const std::size_t colon = line.find(':', 1);
  if (!begins_with_file(line) || colon == line.npos) return std::nullopt;
  std::string_view rest = line.substr(colon + 1);
  const std::string row = take_number(rest, ":"), column = take_number(rest, ": ");
  if (row.empty() || column.empty()) return std::nullopt;
  const auto begins = [&](std::string_view kind) { return rest.starts_with(kind); };
  if (std::none_of(kinds.begin(), kinds.end(), begins)) return std::nullopt;
  return short_name(std::string(line.substr(0, colon))) + ":" + row + ":" + column + ": " +
         std::string(rest);
}

std::optional<std::string> gcc_error(std::string_view line) {
  return gcc_words(line, {"error: ", "fatal error: "});
}

/// "FILE(LINE): error: WORDS" of nvcc, in the same form.
std::optional<std::string> nvcc_error(std::string_view line) {
  const std::size_t bracket = line.find('(', 1);
  if (!begins_with_file(line) || bracket == line.npos) return std::nullopt;
  std::string_view rest = line.substr(bracket + 1);
  const std::string row = take_number(rest, "): ");
  if (row.empty()) return std::nullopt;
  if (!rest.starts_with("error") && !rest.starts_with("catastrophic error")) return std::nullopt;
  return short_name(std::string(line.substr(0, bracket))) + ":" + row + ": " + std::string(rest);
}

bool is_linker_error(const std::string& line) {
  for (const char* words : {"undefined reference to", "cannot find -l", "multiple definition of"}) {
    if (line.find(words) != line.npos) return true;
  }
  return false;
}

}  // namespace

std::string compile_errors(std::string_view output, int most) {
  std::vector<std::string> lines;
  std::istringstream in(without_colours(output));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const bool failed = std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("FAILED: ");
  });
  if (!failed) return {};

  std::string text;
  int count = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::optional<std::string> error = gcc_error(lines[i]);
    if (!error) error = nvcc_error(lines[i]);
    if (!error && is_linker_error(lines[i])) error = lines[i];
    if (!error) continue;
    if (++count > most) continue;
    text += *error + "\n";
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

std::vector<std::string> compile_warnings(std::string_view output) {
  std::vector<std::string> warnings;
  std::istringstream in(without_colours(output));
  for (std::string line; std::getline(in, line);) {
    const std::optional<std::string> warning = gcc_words(line, {"warning: "});
    // Ours are named from the root on; kernels/ compiles without any, unless somebody changes it.
    if (!warning || !(fs::path(*warning).is_absolute() || warning->starts_with("kernels/"))) {
      continue;
    }
    if (std::find(warnings.begin(), warnings.end(), *warning) == warnings.end()) {
      warnings.push_back(*warning);
    }
  }
  return warnings;
}

}  // namespace lanescope

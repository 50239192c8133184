#include "debug/text/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lanescope {
namespace {

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

int columns(std::string_view text) {
  int count = 0;
  for (const char c : text) count += starts_character(c);
  return count;
}

std::string spaces(int count) { return std::string(count > 0 ? count : 0, ' '); }

}  // namespace

std::string coloured(std::string_view text, Colour colour, const Style& style) {
  if (!style.colour) return std::string(text);
  constexpr const char* codes[] = {"31", "32", "33", "2", "1"};
  return std::string("\x1b[") + codes[static_cast<int>(colour)] + "m" + std::string(text) +
         "\x1b[0m";
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string result(text.substr(0, limit));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() > limit ? result + "..." : result;
}

std::string without_controls(std::string_view text, bool lines) {
  std::string result(text);
  for (std::size_t i = 0; i < result.size(); ++i) {
    char& c = result[i];
    const auto code = static_cast<unsigned char>(c);
    // U+0080 to U+009F, in UTF-8 C2 80 to C2 9F, are control characters as well.
    const bool second = i > 0 && result[i - 1] == '\xc2' && code >= 0x80 && code <= 0x9f;
    if (second) result[i - 1] = '?';
    if (second || code == 0x7f || (code < 0x20 && !(lines && (c == '\n' || c == '\t')))) c = '?';
  }
  return result;
}

std::string number_text(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string hex_text(ElementType type, std::uint32_t bits) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%0*x", 2 * size_of(type), bits);
  return text;
}

std::string clip(std::string_view text, int width) {
  if (columns(text) <= width) return std::string(text);
  std::size_t end = 0;
  for (int count = 0; end < text.size(); ++end) {
    if (starts_character(text[end]) && ++count >= width) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string left(std::string_view text, int width) {
  return std::string(text) + spaces(width - columns(text));
}

std::string right(std::string_view text, int width) {
  return spaces(width - columns(text)) + std::string(text);
}

std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& rows,
                                     std::size_t left_columns) {
  std::vector<int> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i < left_columns ? left(row[i], widths[i]) : right(row[i], widths[i]);
    }
    lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return lines;
}

void Page::line(std::string_view text) { whole(clip(text, style_.width)); }
void Page::line(std::string_view text, Colour colour) { whole(clip(text, style_.width), colour); }

void Page::whole(std::string_view text) { text_.append(text) += '\n'; }
void Page::whole(std::string_view text, Colour colour) { whole(coloured(text, colour, style_)); }

void Page::field(std::string_view name, std::string_view text) {
  line("  " + left(name, 10) + std::string(text));
}

}  // namespace lanescope

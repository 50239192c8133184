#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/element_type.h"

namespace lanescope {

/// How text for people is laid out.
struct Style {
  bool colour = false;  ///< ANSI escapes
  int width = 100;      ///< columns of the terminal
  int height = 0;       ///< its lines; 0: not a terminal, as many as there are
};

enum class Colour { red, green, yellow, dim, bold };

/// `text` in `colour`, or as it is where the style has no colours.
std::string coloured(std::string_view text, Colour colour, const Style& style);

/// `text` from a file, fit to print: what is not printable ASCII becomes '?' (no escape sequence of
/// a hostile file reaches the terminal), and what is longer than `limit` ends in "...".
std::string printable(std::string_view text, std::size_t limit = 80);

/// The same of a text of any length in UTF-8, which stays: control characters become '?', but for
/// the ends of `lines` and tabs where it has several.
std::string without_controls(std::string_view text, bool lines = false);

/// `value` with `digits` significant digits, and "inf", "-inf", "nan" for those.
std::string number_text(double value, int digits);

/// `bits` of one element, e.g. 0x3c00.
std::string hex_text(ElementType type, std::uint32_t bits);

/// `text` cut to `width` columns, the last of them "…" where something was cut.
std::string clip(std::string_view text, int width);

/// `text` filled with spaces to `width` columns (UTF-8 characters count one), left or right
/// aligned.
std::string left(std::string_view text, int width);
std::string right(std::string_view text, int width);

/// One line per row, its cells two spaces apart in columns as wide as their widest cell: the first
/// `left_columns` left aligned, the others right aligned.
std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& rows,
                                     std::size_t left_columns);

/// Text for people, line by line.
class Page {
 public:
  explicit Page(const Style& style) : style_(style) {}
  /// A line cut to the width of the style.
  void line(std::string_view text = {});
  void line(std::string_view text, Colour colour);
  /// A line that must not be cut: a verdict, a warning, a command to copy.
  void whole(std::string_view text);
  void whole(std::string_view text, Colour colour);
  /// "  name      text".
  void field(std::string_view name, std::string_view text);
  const Style& style() const { return style_; }
  const std::string& text() const { return text_; }

 private:
  Style style_;
  std::string text_;
};

/// What stands for a slot that was never written.
inline constexpr std::string_view unwritten_text = "····";

}  // namespace lanescope

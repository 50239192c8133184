#pragma once

#include <optional>
#include <string_view>

#include "reference/site.h"

namespace lanescope {

/// What a marker in a PTX text says (kernels/trace/lanescope.h), before its operands:
///   // lanescope row_tile BATCH, HEAD, INDEX
///   // lanescope trace SITE FORM TILE, ROW, COL, VALUE
///   // lanescope inject SITE FORM TILE, ROW, COL, VALUE
struct Marker {
  enum class Kind : std::uint8_t { row_tile, trace, inject };
  /// Of the value's register: a float; 16 bits of the kernel's type; two of those, the lower half
  /// first.
  enum class Form : std::uint8_t { f32, b16, b16x2 };
  Kind kind = Kind::row_tile;
  SiteId site = SiteId::s;
  Form form = Form::f32;
  bool unscaled = false;  ///< of s: ScoreUnit::raw, the word qk

  bool operator==(const Marker&) const = default;
};

/// What the comment of a marker begins with, behind "// ".
inline constexpr std::string_view marker_word = "lanescope ";

/// Takes the first word off `text`.
constexpr std::string_view take_word(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  std::size_t end = text.find(' ');
  if (end == text.npos) end = text.size();
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

/// Whether values of a site are marked: those of a tile, no outputs and no partials.
constexpr bool is_marked_site(SiteId id) { return !is_output(id) && !is_partial(id); }

/// Takes the words of a marker off `text`, which is then its operands. Nothing where it is none.
constexpr std::optional<Marker> take_marker(std::string_view& text) {
  if (!text.starts_with(marker_word)) return std::nullopt;
  take_word(text);
  Marker marker;
  const std::string_view kind = take_word(text);
  if (kind == "row_tile") return marker;
  if (kind != "trace" && kind != "inject") return std::nullopt;
  marker.kind = kind == "trace" ? Marker::Kind::trace : Marker::Kind::inject;
  const std::string_view site = take_word(text), form = take_word(text);
  marker.unscaled = site == "qk";
  bool known = marker.unscaled;  // the site is s then
  for (int i = 0; i < site_id_count; ++i) {
    const auto id = static_cast<SiteId>(i);
    if (!is_marked_site(id) || site != name_of(id)) continue;
    marker.site = id;
    known = true;
  }
  if (form == "b16") marker.form = Marker::Form::b16;
  if (form == "b16x2") marker.form = Marker::Form::b16x2;
  if (!known || (form != "f32" && marker.form == Marker::Form::f32)) return std::nullopt;
  return marker;
}

}  // namespace lanescope

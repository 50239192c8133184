#pragma once

#include <optional>
#include <string_view>

#include "reference/site.h"

namespace lanescope {

/// What a marker in a PTX text says (kernels/trace/lanescope.h), before its operands:
///   // lanescope row_tile BATCH, HEAD, INDEX
///   // lanescope phase STAGE
///   // lanescope trace SITE FORM TILE, ROW, COL, VALUE
///   // lanescope inject SITE FORM TILE, ROW, COL, VALUE
///   // lanescope tile SITE FORM TILE, ADDRESS, ROW, COL, PANEL, PANEL_STRIDE, SWIZZLE
struct Marker {
  enum class Kind : std::uint8_t { row_tile, phase, trace, inject, tile };
  /// Of a value: a float; 16 bits of the kernel's type; two of those, the lower half first.
  enum class Form : std::uint8_t { f32, b16, b16x2 };
  Kind kind = Kind::row_tile;
  SiteId site = SiteId::s;
  Form form = Form::f32;
  ScoreUnit unit = ScoreUnit::base_2;  ///< of s and the maxima
  Stage stage = Stage::load;           ///< of a phase

  bool operator==(const Marker&) const = default;
};

/// Whether it is of a site: of a value, or of a tile in shared memory.
constexpr bool has_site(const Marker& marker) {
  return marker.kind != Marker::Kind::row_tile && marker.kind != Marker::Kind::phase;
}
/// Whether a register is its value.
constexpr bool has_value(const Marker& marker) {
  return marker.kind == Marker::Kind::trace || marker.kind == Marker::Kind::inject;
}
/// Whether the site's values are kept: not where they are replaced.
constexpr bool shows(const Marker& marker) {
  return marker.kind == Marker::Kind::trace || marker.kind == Marker::Kind::tile;
}
constexpr int operand_count(Marker::Kind kind) {
  constexpr int counts[] = {3, 0, 4, 4, 7};
  return counts[static_cast<int>(kind)];
}

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

/// Reads the word of a site into `marker`: its name, "qk" for raw scores; scores and maxima in
/// other units have those behind their names: "s_base_e", "m_raw". False where there is none.
constexpr bool read_site(std::string_view word, Marker& marker) {
  if (word == "qk") {
    marker.unit = ScoreUnit::raw;
    return true;
  }
  for (int i = 0; i < site_id_count; ++i) {
    const auto id = static_cast<SiteId>(i);
    const std::string_view name = name_of(id);
    if (!is_marked_site(id) || !word.starts_with(name)) continue;
    std::string_view rest = word.substr(name.size());
    const bool has_unit = id == SiteId::s || is_maximum(id);
    for (const ScoreUnit unit : {ScoreUnit::base_2, ScoreUnit::base_e, ScoreUnit::raw}) {
      const bool is_it = unit == ScoreUnit::base_2
                             ? rest.empty()
                             : has_unit && rest.starts_with('_') && rest.substr(1) == name_of(unit);
      if (!is_it) continue;
      marker.site = id;
      marker.unit = unit;
      return true;
    }
  }
  return false;
}

/// Takes the words of a marker off `text`, which is then its operands. Nothing where it is none.
constexpr std::optional<Marker> take_marker(std::string_view& text) {
  if (!text.starts_with(marker_word)) return std::nullopt;
  take_word(text);
  Marker marker;
  const std::string_view word = take_word(text);
  constexpr std::string_view kinds[] = {"row_tile", "phase", "trace", "inject", "tile"};
  int kind = 0;
  while (kind < 5 && kinds[kind] != word) ++kind;
  if (kind == 5) return std::nullopt;
  marker.kind = static_cast<Marker::Kind>(kind);
  if (marker.kind == Marker::Kind::row_tile) return marker;
  const std::string_view of = take_word(text);
  if (marker.kind == Marker::Kind::phase) {
    for (const Stage stage : {Stage::load, Stage::qk, Stage::softmax, Stage::pv, Stage::epilogue}) {
      marker.stage = stage;
      if (of == name_of(stage)) return marker;
    }
    return std::nullopt;
  }
  const std::string_view form = take_word(text);
  if (form == "b16") marker.form = Marker::Form::b16;
  if (form == "b16x2") marker.form = Marker::Form::b16x2;
  const bool is_form = form == "f32" || marker.form != Marker::Form::f32;
  const bool fits = !(marker.kind == Marker::Kind::tile && marker.form == Marker::Form::b16x2);
  if (!is_form || !fits || !read_site(of, marker)) return std::nullopt;
  return marker;
}

}  // namespace lanescope

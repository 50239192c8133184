#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "debug/dump/dump.h"
#include "debug/text/text.h"

namespace lanescope {

/// How the values of a tile are laid out as text.
///   lanes  the 32 lanes of a warp as 8 rows of 4, as a fragment of a matrix unit orders them
///   tile   rows x columns
///   heat   a map of the errors in units of their bounds, scaled to fit the window
enum class ShowAs : std::uint8_t { lanes, tile, heat };

/// Throws UsageError, listing them, where `text` is none.
ShowAs parse_show_as(std::string_view text);

/// Which values of a dump to show.
struct ShowOptions {
  std::string site;                                   ///< a site, or q, k, v, o_final, lse
  std::optional<std::int64_t> block = {}, tile = {};  ///< else the first of the dump
  std::optional<std::int64_t> warp = {};              ///< registers: else the first (lanes) or all
  std::optional<std::int64_t> lane = {};              ///< registers: else all
  std::int64_t col = 0;           ///< of rows x columns: the first column; what fits is shown
  std::optional<ShowAs> as = {};  ///< else lanes where there are lanes
  bool watch = false;             ///< follow the site over all tiles instead
};

/// Values as text, each beside its reference: a line of values, and where they are not exactly
/// that, the lines "want" and "error" (in units of its bound) below. One lane is a table with the
/// bits. A slot that was never written is "····". Watched, a site is one line per tile: how many
/// values are wrong, the worst, and which invariants of the online softmax are broken; the
/// registers of one lane are followed value by value. Throws UsageError, with what there is
/// instead, where the dump does not have what is asked for.
std::string show_text(const Dump& dump, const ShowOptions& options, const Style& style);

/// The same values for programs, one JSON object: {kernel, gate, backend, site, stage, space, type,
/// block, batch, head, query (of the block's first row), split, tile, judgement, values: [...]};
/// stage is null for inputs, judgement ("local" or "chain": see diff) where the tile is not judged.
///   registers  values of {warp, lane, reg, row, col, value, bits}; row and col are null where the
///              register stands for no element or another lane speaks for it
///   else       values of {row, col, value, bits} and, where known, owner: the thread that wrote it
/// value is null for a slot that was never written, else a number or "inf", "-inf", "nan"; bits are
/// a string, e.g. "0x3c00". Each value has want, bound, error (in units of the bound) and verdict:
/// "right", "wrong", "unwritten"; null where it is not judged.
/// Watched: tiles: [{tile, judgement, judged, wrong, unwritten, nan, inf, worst, broken: [string]}]
/// in place of tile, judgement and values.
/// Throws UsageError as show_text does.
std::string show_json(const Dump& dump, const ShowOptions& options);

}  // namespace lanescope

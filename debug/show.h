#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "debug/dump.h"
#include "debug/text.h"

namespace lanescope {

/// Which values of a dump to show.
struct ShowOptions {
  std::string site;                                   ///< a site, or q, k, v, o_final, lse
  std::optional<std::int64_t> block = {}, tile = {};  ///< else the first of the dump
  std::optional<std::int64_t> warp = {};  ///< registers: else the first (text) or all (JSON)
  std::optional<std::int64_t> lane = {};  ///< registers: else all
  std::int64_t col = 0;  ///< text of a matrix: the first column; what fits the width is shown
};

/// Values as text. In registers: the 32 lanes of a warp as 8 rows of 4, as a fragment of a matrix
/// unit orders them, or one lane register by register with (row, column), value and bits. Else the
/// tile as a matrix. A slot that was never written is "····".
/// Throws UsageError, with what there is instead, where the dump does not have what is asked for.
std::string show_text(const Dump& dump, const ShowOptions& options, const Style& style);

/// The same values for programs, one JSON object: {kernel, gate, backend, site, stage, space, type,
/// block, batch, head, query (of the block's first row), split,
/// tile, values: [...]}; stage is null for inputs.
///   registers  values of {warp, lane, reg, row, col, value, bits}; row and col are null where the
///              register stands for no element or another lane speaks for it
///   else       values of {row, col, value, bits} and, where known, owner: the thread that wrote it
/// value is null for a slot that was never written, else a number or "inf", "-inf", "nan"; bits are
/// a string, e.g. "0x3c00". Throws UsageError as show_text does.
std::string show_json(const Dump& dump, const ShowOptions& options);

}  // namespace lanescope

#pragma once

#include <string>
#include <string_view>

#include "debug/dump/dump.h"
#include "debug/judge/diff.h"
#include "debug/text/text.h"

namespace lanescope {

// What the texts about one dump and about two have in common.

constexpr int digits = 9;  ///< that tell any two floats apart

/// Kernel, gate, shape, type and tile; the inputs.
void write_header(Page& page, const DumpInfo& info);
/// Backend, device and module, behind `prefix`.
void write_machine(Page& page, const std::string& prefix, const DumpInfo& info);
/// "tile 0, warp 1, lane 5, register 2", or the row and column where no register holds it.
std::string slot_text(const Divergence& at);
/// "row 3 of the tile (query 35), column 7 (key 71)", as far as it applies.
std::string place_text(const Divergence& at);
/// Block, slot, row and column.
void write_place(Page& page, const DumpInfo& info, const Divergence& at);
/// The value at `at` of tensor `name`, with its bits.
std::string got_text(const Dump& dump, std::string_view name, const Divergence& at);
/// The last line.
void write_verdict(Page& page, const std::string& verdict, const std::string& reason);

}  // namespace lanescope

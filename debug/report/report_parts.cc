#include "debug/report/report_parts.h"

#include "debug/dump/site_slots.h"
#include "debug/judge/tile_view.h"
#include "debug/report/suggested_command.h"

namespace lanescope {

void write_header(Page& page, const DumpInfo& info) {
  page.line(info.kernel + " " + info.gate + "  " + shape_option(info.problem) +
                (info.problem.causal ? " causal" : "") + "  " + name_of(info.dtype) + "  tile " +
                std::to_string(info.br) + " x " + std::to_string(info.bc) +
                (info.splits > 1 ? "  " + std::to_string(info.splits) + " splits" : ""),
            Colour::bold);
  page.whole("input " + info.input + "  seed " + std::to_string(info.seed));
}

void write_machine(Page& page, const std::string& prefix, const DumpInfo& info) {
  page.line(prefix + info.backend + "  " + info.device + "  " + info.module);
}

std::string slot_text(const Divergence& at) {
  std::string text;
  const auto part = [&](const char* name, std::int64_t value) {
    if (value < 0) return;
    text += std::string(text.empty() ? "" : ", ") + name + " " + std::to_string(value);
  };
  part("tile", at.tile);
  part("warp", at.warp);
  part("lane", at.lane);
  part("register", at.reg);
  if (at.reg < 0) {
    part("row", at.row);
    part("column", at.col);
  }
  return text;
}

std::string place_text(const Divergence& at) {
  std::string text;
  if (at.row >= 0) text += "row " + std::to_string(at.row) + " of the tile";
  if (at.query >= 0) text += " (query " + std::to_string(at.query) + ")";
  if (at.col >= 0) text += ", column " + std::to_string(at.col);
  if (at.key >= 0) text += " (key " + std::to_string(at.key) + ")";
  return text;
}

std::string got_text(const Dump& dump, std::string_view name, const Divergence& at) {
  std::string value = at.unwritten ? "never written" : number_text(at.got, digits);
  const auto index = index_at(dump, name, at);
  if (!index) return value;
  const Tensor& tensor = *dump.find(name);
  return left(value, 18) + hex_text(tensor.type, tensor.bits(*index));
}

void write_place(Page& page, const DumpInfo& info, const Divergence& at) {
  if (at.block >= 0) {
    page.field("block", std::to_string(at.block) + " (" + block_text(info, at.block) + ")");
  }
  page.field("slot", slot_text(at));
  page.field("place", place_text(at));
}

void write_verdict(Page& page, const std::string& verdict, const std::string& reason) {
  page.line();
  const bool holds = verdict == "match" || verdict == "variant";
  page.whole(verdict + ": " + reason, holds ? Colour::green : Colour::red);
}

}  // namespace lanescope

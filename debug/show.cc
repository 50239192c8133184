#include "debug/show.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "debug/error.h"
#include "debug/selection.h"
#include "debug/site_slots.h"
#include "debug/tile_view.h"

namespace lanescope {
namespace {

constexpr int cell_width = 10;  // of the longest value, "-1.234e-05"
constexpr int label_width = 5;
constexpr int lanes_per_line = 4;
constexpr int lane_gap = 2;

std::string cell(const Tensor& tensor, std::int64_t index, const Style& style) {
  if (is_unwritten(tensor, index)) {
    return coloured(right(unwritten_text, cell_width), Colour::yellow, style);
  }
  const double value = tensor.at(index);
  const std::string text = right(number_text(value, 4), cell_width);
  return std::isnan(value) ? coloured(text, Colour::red, style) : text;
}

void write_title(Page& page, const Dump& dump, const Selection& at, const std::string& name) {
  const DumpInfo& info = dump.info;
  page.line(info.kernel + " " + info.gate + "  " + info.backend + "  " + info.device, Colour::dim);
  std::string title = name + "  " + name_of(at.tensor->type);
  if (at.site != nullptr) {
    const Site& site = at.site->site;
    title += std::string(", ") + name_of(site.space) + ", stage " + name_of(site.stage) + ", " +
             std::to_string(site.rows) + " x " + std::to_string(site.cols) + " per tile";
  }
  page.line(title, Colour::bold);
  std::string text = "block " + std::to_string(at.block) + " (" + block_text(info, at.block) + ")";
  if (name == "k" || name == "v" || (at.site != nullptr && at.site->site.per_tile)) {
    text += ", tile " + std::to_string(at.tile) + " (keys from " +
            std::to_string(info.key_of(info.place(at.block), at.tile)) + ")";
  }
  page.whole(text);
  if (!info.incomplete.empty()) {
    page.whole("the run did not end: " + info.incomplete, Colour::yellow);
  }
}

/// The lanes of a warp, as many registers side by side as the width holds.
void write_grid(Page& page, const Dump& dump, const Selection& at, std::int64_t warp) {
  const Site& site = at.site->site;
  const std::int64_t origin = SiteSlots(dump, *at.site).first(at.block, at.tile);
  const int per_lane = (page.style().width - label_width) / lanes_per_line - lane_gap + 1;
  const int fitting = std::clamp(per_lane / (cell_width + 1), 1, site.regs);
  const int step = static_cast<int>(std::bit_floor(static_cast<unsigned>(fitting)));
  const int lane_width = step * (cell_width + 1) - 1;
  page.line("warp " + std::to_string(warp) + " of " + std::to_string(site.warps));
  for (int first = 0; first < site.regs; first += step) {
    const int end = std::min(first + step, site.regs);
    page.line();
    page.line(first + 1 == end
                  ? "register " + std::to_string(first)
                  : "registers " + std::to_string(first) + " to " + std::to_string(end - 1),
              Colour::bold);
    std::string head = left("lanes", label_width);
    for (int lane = 0; lane < lanes_per_line; ++lane) {
      head += std::string(lane_gap, ' ') + right("+" + std::to_string(lane), lane_width);
    }
    page.line(head, Colour::dim);
    for (int row = 0; row < 32; row += lanes_per_line) {
      std::string line = right(std::to_string(row), label_width);
      for (int lane = row; lane < row + lanes_per_line; ++lane) {
        line += std::string(lane_gap - 1, ' ');
        for (int reg = first; reg < end; ++reg) {
          line += " " + cell(*at.tensor, origin + lane_slot(site, warp, lane, reg), page.style());
        }
      }
      page.whole(line);
    }
  }
}

void write_lane(Page& page, const Dump& dump, const Selection& at, std::int64_t warp,
                std::int64_t lane) {
  const Site& site = at.site->site;
  const Tensor& tensor = *at.tensor;
  const SiteSlots slots(dump, *at.site);
  page.line("warp " + std::to_string(warp) + ", lane " + std::to_string(lane));
  page.line();
  std::vector<std::vector<std::string>> rows = {{"register", "row", "column", "value", "bits"}};
  for (int reg = 0; reg < site.regs; ++reg) {
    const std::int64_t slot = lane_slot(site, warp, lane, reg);
    const std::int64_t index = slots.first(at.block, at.tile) + slot;
    const bool speaks = slots.row(slot) >= 0;
    rows.push_back({std::to_string(reg), speaks ? std::to_string(slots.row(slot)) : "-",
                    speaks ? std::to_string(slots.col(slot)) : "-",
                    is_unwritten(tensor, index) ? std::string(unwritten_text)
                                                : number_text(tensor.at(index), 9),
                    hex_text(tensor.type, tensor.bits(index))});
  }
  const std::vector<std::string> lines = table_lines(rows, 0);
  page.line(lines[0], Colour::dim);
  for (std::size_t i = 1; i < lines.size(); ++i) page.line(lines[i]);
}

void write_matrix(Page& page, const Selection& at, const TileView& view, std::int64_t first) {
  if (first < 0 || first >= view.cols) {
    throw UsageError("--col " + std::to_string(first) + ": the tile has the columns 0 to " +
                     std::to_string(view.cols - 1));
  }
  const std::int64_t fitting = std::max((page.style().width - label_width) / (cell_width + 1), 1);
  const std::int64_t end = std::min(first + fitting, view.cols);
  page.line();
  std::string head = left("row", label_width);
  for (std::int64_t col = first; col < end; ++col) {
    head += " " + right(std::to_string(col), cell_width);
  }
  page.line(head, Colour::dim);
  for (std::int64_t row = 0; row < view.rows; ++row) {
    std::string line = right(std::to_string(row), label_width);
    for (std::int64_t col = first; col < end; ++col) {
      line += " " + cell(*at.tensor, view.index(row, col), page.style());
    }
    page.whole(line);
  }
  if (end - first == view.cols) return;
  page.line();
  page.whole("columns " + std::to_string(first) + " to " + std::to_string(end - 1) + " of " +
             std::to_string(view.cols) + "; " +
             (end < view.cols ? "go on with --col " + std::to_string(end) + ", " : "") +
             "all of them with --format json");
}

}  // namespace

std::string show_text(const Dump& dump, const ShowOptions& options, const Style& style) {
  const Selection at = select(dump, options);
  Page page(style);
  write_title(page, dump, at, options.site);
  if (!at.registers()) {
    write_matrix(page, at, tile_view(dump, options.site, at.block, at.tile), options.col);
  } else if (at.lane) {
    write_lane(page, dump, at, at.warp.value_or(0), *at.lane);
  } else {
    write_grid(page, dump, at, at.warp.value_or(0));
  }
  return page.text();
}

}  // namespace lanescope

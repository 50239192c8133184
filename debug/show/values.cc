#include <algorithm>
#include <bit>
#include <cmath>

#include "debug/judge/tile_view.h"
#include "debug/show/parts.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr int cell_width = 10;  // of the longest value, "-1.234e-05"
constexpr int label_width = 5;
constexpr int lanes_per_line = 4;
constexpr int lane_gap = 2;

/// A line of values and, where they are not exactly the reference, the lines "want" and "error".
class ValueLines {
 public:
  ValueLines(Page& page, std::string_view label) : page_(page) {
    value_ = right(label, label_width);
    want_ = coloured(right("want", label_width), Colour::dim, page.style());
    error_ = coloured(right("error", label_width), Colour::dim, page.style());
  }
  void space(int columns) {
    for (std::string* line : {&value_, &want_, &error_}) line->append(columns, ' ');
  }
  void add(const ShownTile& tile, const Place* place) {
    space(1);
    if (place == nullptr) {
      space(cell_width);
      return;
    }
    const Judged judged = tile.judge(*place);
    value_ += value_cell(*tile.at.tensor, *place, judged, cell_width, page_.style());
    const bool known = judged.verdict != Verdict::unjudged;
    want_ += coloured(right(known ? number_text(judged.want, 4) : "-", cell_width), Colour::dim,
                      page_.style());
    const std::string error = right(error_text(*tile.at.tensor, *place, judged), cell_width);
    error_ += judged.verdict == Verdict::right || !known
                  ? coloured(error, Colour::dim, page_.style())
                  : verdict_cell(error, judged, page_.style());
    exact_ &= judged.error == 0;
  }
  void write() {
    page_.whole(value_);
    if (exact_) return;
    page_.whole(want_);
    page_.whole(error_);
  }

 private:
  Page& page_;
  std::string value_, want_, error_;
  bool exact_ = true;
};

/// "rows 0..15, columns 0..7": what the registers of a warp stand for.
std::string extent_text(const ShownTile& tile, std::int64_t warp, int first, int end) {
  const Site& site = tile.at.site->site;
  Range rows{site.rows, 0}, cols{site.cols, 0};
  for (std::int64_t lane = 0; lane < 32; ++lane) {
    for (int reg = first; reg < end; ++reg) {
      const Place& place = tile.places[static_cast<std::size_t>(lane_slot(site, warp, lane, reg))];
      if (place.row < 0) continue;
      rows = {std::min<std::int64_t>(rows.begin, place.row),
              std::max<std::int64_t>(rows.end, place.row + 1)};
      cols = {std::min<std::int64_t>(cols.begin, place.col),
              std::max<std::int64_t>(cols.end, place.col + 1)};
    }
  }
  if (rows.count() <= 0) return "";
  const auto text = [](const Range& range) {
    return std::to_string(range.begin) + ".." + std::to_string(range.end - 1);
  };
  return ": rows " + text(rows) + (site.cols > 1 ? ", columns " + text(cols) : "");
}

/// The query that `row` of a block is, with its head where the block has several.
std::string query_text(const DumpInfo& info, const BlockPlace& block, std::int64_t row) {
  if (row >= info.rows(block)) return "-";
  const std::string query = std::to_string(info.query_of(block, row));
  if (info.heads_per_tile == 1) return query;
  return query + " of head " + std::to_string(info.head_of(block, row));
}

/// A tile of one column as a table, a row of it per line.
void write_column(Page& page, const ShownTile& tile, const TileElements& elements) {
  const DumpInfo& info = tile.dump.info;
  const BlockPlace block = info.place(tile.at.block);
  std::vector<std::vector<std::string>> rows = {
      {"row", "query", "value", "want", "bound", "error"}};
  std::vector<Judged> verdicts;
  for (std::int64_t row = elements.rows.begin; row < elements.rows.end; ++row) {
    const Place* place = elements.find(row, 0);
    if (place == nullptr) continue;
    const Judged judged = tile.judge(*place);
    const bool known = judged.verdict != Verdict::unjudged;
    verdicts.push_back(judged);
    rows.push_back({std::to_string(row), query_text(info, block, row),
                    is_unwritten(*tile.at.tensor, place->index)
                        ? std::string(unwritten_text)
                        : number_text(tile.at.tensor->at(place->index), 9),
                    known ? number_text(judged.want, 9) : "-",
                    known ? number_text(judged.bound, 3) : "-",
                    error_text(*tile.at.tensor, *place, judged)});
  }
  const std::vector<std::string> lines = table_lines(rows, 0);
  page.line(lines[0], Colour::dim);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    page.whole(verdict_cell(lines[i], verdicts[i - 1], page.style()));
  }
}

}  // namespace

std::string error_text(const Tensor& tensor, const Place& place, const Judged& judged) {
  if (judged.verdict == Verdict::unjudged) return "-";
  const double off = std::abs(tensor.at(place.index) - judged.want);
  if (judged.bound == 0 && off > 0 && std::isfinite(off)) return "Δ" + number_text(off, 3);
  return number_text(judged.error, 3);
}

std::string verdict_cell(std::string_view text, const Judged& judged, const Style& style) {
  if (judged.verdict == Verdict::unwritten) return coloured(text, Colour::yellow, style);
  if (judged.verdict == Verdict::wrong) return coloured(text, Colour::red, style);
  return std::string(text);
}

std::string value_cell(const Tensor& tensor, const Place& place, const Judged& judged, int width,
                       const Style& style) {
  if (is_unwritten(tensor, place.index)) {
    return coloured(right(unwritten_text, width), Colour::yellow, style);
  }
  const double value = tensor.at(place.index);
  const std::string text = right(number_text(value, 4), width);
  if (judged.verdict == Verdict::unjudged && std::isnan(value)) {
    return coloured(text, Colour::red, style);
  }
  return verdict_cell(text, judged, style);
}

TileElements::TileElements(const ShownTile& tile) {
  const bool registers = tile.at.registers();
  std::vector<const Place*> chosen;
  for (const Place& place : tile.places) {
    if (place.row < 0) continue;
    const std::int64_t thread = registers ? place.slot / tile.at.site->site.regs : 0;
    if (registers && tile.at.warp && thread / 32 != *tile.at.warp) continue;
    if (registers && tile.at.lane && thread % 32 != *tile.at.lane) continue;
    if (chosen.empty()) rows = {place.row, 0}, cols = {place.col, 0};
    rows = {std::min<std::int64_t>(rows.begin, place.row),
            std::max<std::int64_t>(rows.end, place.row + 1)};
    cols = {std::min<std::int64_t>(cols.begin, place.col),
            std::max<std::int64_t>(cols.end, place.col + 1)};
    chosen.push_back(&place);
  }
  places_.assign(static_cast<std::size_t>(rows.count() * cols.count()), Place{-1, -1, -1, -1});
  for (const Place* place : chosen) {
    Place& own = places_[static_cast<std::size_t>((place->row - rows.begin) * cols.count() +
                                                  place->col - cols.begin)];
    if (own.row < 0 || tile.judge(*place).error > tile.judge(own).error) own = *place;
  }
}

const Place* TileElements::find(std::int64_t row, std::int64_t col) const {
  if (!rows.contains(row) || !cols.contains(col)) return nullptr;
  const Place& place =
      places_[static_cast<std::size_t>((row - rows.begin) * cols.count() + col - cols.begin)];
  return place.row < 0 ? nullptr : &place;
}

void write_grid(Page& page, const ShownTile& tile, std::int64_t warp) {
  const Site& site = tile.at.site->site;
  const int per_lane = (page.style().width - label_width) / lanes_per_line - lane_gap + 1;
  const int fitting = std::clamp(per_lane / (cell_width + 1), 1, site.regs);
  const int step = static_cast<int>(std::bit_floor(static_cast<unsigned>(fitting)));
  const int lane_width = step * (cell_width + 1) - 1;
  page.line("warp " + std::to_string(warp) + " of " + std::to_string(site.warps));
  for (int first = 0; first < site.regs; first += step) {
    const int end = std::min(first + step, site.regs);
    page.line();
    page.line((first + 1 == end
                   ? "register " + std::to_string(first)
                   : "registers " + std::to_string(first) + " to " + std::to_string(end - 1)) +
                  extent_text(tile, warp, first, end),
              Colour::bold);
    std::string head = left("lanes", label_width);
    for (int lane = 0; lane < lanes_per_line; ++lane) {
      head += std::string(lane_gap, ' ') + right("+" + std::to_string(lane), lane_width);
    }
    page.line(head, Colour::dim);
    for (int row = 0; row < 32; row += lanes_per_line) {
      ValueLines lines(page, std::to_string(row));
      for (int lane = row; lane < row + lanes_per_line; ++lane) {
        lines.space(lane_gap - 1);
        for (int reg = first; reg < end; ++reg) {
          lines.add(tile, &tile.places[static_cast<std::size_t>(lane_slot(site, warp, lane, reg))]);
        }
      }
      lines.write();
    }
  }
}

void write_lane(Page& page, const ShownTile& tile, std::int64_t warp, std::int64_t lane) {
  const Site& site = tile.at.site->site;
  const Tensor& tensor = *tile.at.tensor;
  page.line("warp " + std::to_string(warp) + ", lane " + std::to_string(lane));
  page.line();
  std::vector<std::vector<std::string>> rows = {
      {"register", "row", "column", "value", "bits", "want", "bound", "error"}};
  std::vector<Judged> verdicts;
  for (int reg = 0; reg < site.regs; ++reg) {
    const Place& place = tile.places[static_cast<std::size_t>(lane_slot(site, warp, lane, reg))];
    const Judged judged = tile.judge(place);
    const bool known = judged.verdict != Verdict::unjudged;
    verdicts.push_back(judged);
    rows.push_back({std::to_string(reg), place.row >= 0 ? std::to_string(place.row) : "-",
                    place.row >= 0 ? std::to_string(place.col) : "-",
                    is_unwritten(tensor, place.index) ? std::string(unwritten_text)
                                                      : number_text(tensor.at(place.index), 9),
                    hex_text(tensor.type, tensor.bits(place.index)),
                    known ? number_text(judged.want, 9) : "-",
                    known ? number_text(judged.bound, 3) : "-", error_text(tensor, place, judged)});
  }
  const std::vector<std::string> lines = table_lines(rows, 0);
  page.line(lines[0], Colour::dim);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    page.whole(verdict_cell(lines[i], verdicts[i - 1], page.style()));
  }
}

void write_tile(Page& page, const ShownTile& tile, std::int64_t first_col) {
  const TileElements elements(tile);
  const std::int64_t cols = elements.cols.end;
  if (first_col < 0 || first_col >= std::max<std::int64_t>(cols, 1)) {
    throw UsageError("--col " + std::to_string(first_col) + ": the tile has the columns 0 to " +
                     std::to_string(cols - 1));
  }
  page.line();
  if (cols <= 1) {
    write_column(page, tile, elements);
    return;
  }
  const std::int64_t first = std::max(first_col, elements.cols.begin);
  const std::int64_t fitting = std::max((page.style().width - label_width) / (cell_width + 1), 1);
  const std::int64_t end = std::min(first + fitting, cols);
  std::string head = left("row", label_width);
  for (std::int64_t col = first; col < end; ++col) {
    head += " " + right(std::to_string(col), cell_width);
  }
  page.line(head, Colour::dim);
  for (std::int64_t row = elements.rows.begin; row < elements.rows.end; ++row) {
    ValueLines lines(page, std::to_string(row));
    for (std::int64_t col = first; col < end; ++col) lines.add(tile, elements.find(row, col));
    lines.write();
  }
  if (first == elements.cols.begin && end == cols) return;
  page.line();
  page.whole("columns " + std::to_string(first) + " to " + std::to_string(end - 1) + " of " +
             std::to_string(cols) + "; " +
             (end < cols ? "go on with --col " + std::to_string(end) + ", " : "") +
             "all of them with --format json");
}

}  // namespace lanescope

#include <algorithm>
#include <cmath>

#include "debug/show/parts.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// How bad a value is; of several in one cell of the map the worst counts.
///   none      no value, or not judged
///   exact     the reference
///   within    off, but inside the bound
///   1 ... 9   outside: an error up to 10, 100, ... of its bound
enum Heat : int { none, exact, within, outside, infinite = outside + 9, not_a_number, unwritten };
constexpr int heats = unwritten + 1;

/// As characters, where there are no colours.
constexpr std::string_view letters = " .:123456789IN?";
/// Of the 256 colours of a terminal: grey, green, from yellow to dark red, violet, pink, cyan.
constexpr int palette[] = {0, 238, 29, 229, 221, 214, 208, 202, 196, 160, 124, 88, 93, 213, 51};
static_assert(letters.size() == heats && std::size(palette) == heats);

Heat heat_of(const ShownTile& tile, const Place* place) {
  if (place == nullptr) return none;
  const Judged judged = tile.judge(*place);
  if (judged.verdict == Verdict::unjudged) return none;
  if (judged.verdict == Verdict::unwritten) return unwritten;
  if (judged.verdict == Verdict::right) return judged.error == 0 ? exact : within;
  const double value = tile.at.tensor->at(place->index);
  if (std::isnan(value)) return not_a_number;
  if (std::isinf(value)) return infinite;
  const double decades = std::floor(std::log10(judged.error));  // inf where the bound is 0
  return static_cast<Heat>(outside + static_cast<int>(std::clamp(decades, 0.0, 8.0)));
}

/// The map, `row_step` x `col_step` elements a cell.
struct HeatMap {
  std::int64_t rows, cols, row_step, col_step;
  std::vector<Heat> cells;

  HeatMap(const ShownTile& tile, const TileElements& elements, std::int64_t row_step,
          std::int64_t col_step)
      : rows((elements.rows.count() + row_step - 1) / row_step),
        cols((elements.cols.count() + col_step - 1) / col_step),
        row_step(row_step),
        col_step(col_step),
        cells(static_cast<std::size_t>(rows * cols), none) {
    for (std::int64_t row = 0; row < elements.rows.count(); ++row) {
      for (std::int64_t col = 0; col < elements.cols.count(); ++col) {
        Heat& cell = cells[static_cast<std::size_t>(row / row_step * cols + col / col_step)];
        const Place* place = elements.find(elements.rows.begin + row, elements.cols.begin + col);
        cell = std::max(cell, heat_of(tile, place));
      }
    }
  }
  Heat at(std::int64_t row, std::int64_t col) const {
    return row < rows ? cells[static_cast<std::size_t>(row * cols + col)] : none;
  }
};

std::string escape(int code, Heat heat) {
  return "\x1b[" + std::to_string(code) + ";5;" + std::to_string(palette[heat]) + "m";
}

/// Two cells, one above the other, as one character.
std::string half_blocks(Heat above, Heat below) {
  if (above == none && below == none) return " ";
  if (above == none) return escape(38, below) + "▄\x1b[0m";
  if (below == none) return escape(38, above) + "▀\x1b[0m";
  return escape(38, above) + escape(48, below) + "▀\x1b[0m";
}

/// The heats that the map has, in words.
std::string legend(const HeatMap& map, const Style& style) {
  const auto sign = [&](int heat) {
    if (style.colour) return escape(38, static_cast<Heat>(heat)) + "■\x1b[0m";
    return std::string(1, letters[static_cast<std::size_t>(heat)]);
  };
  std::string text;
  for (int heat = exact; heat < heats; ++heat) {
    if (std::find(map.cells.begin(), map.cells.end(), heat) == map.cells.end()) continue;
    std::string words = "≤1e" + std::to_string(heat - outside + 1);
    if (heat == outside + 8) words = "more";
    if (heat == exact) words = "exact";
    if (heat == within) words = "≤1";
    if (heat == infinite) words = "inf";
    if (heat == not_a_number) words = "nan";
    if (heat == unwritten) words = "unwritten";
    text += (text.empty() ? "" : "  ") + sign(heat) + " " + words;
  }
  return text;
}

/// Every eighth cell its column.
std::string column_head(const HeatMap& map, std::int64_t first, int label_width) {
  std::string head(static_cast<std::size_t>(label_width), ' ');
  for (std::int64_t col = 0; col < map.cols; col += 8) {
    const std::string number = std::to_string(first + col * map.col_step);
    head.resize(static_cast<std::size_t>(label_width + col), ' ');
    head += number;
  }
  return head;
}

}  // namespace

void write_heat(Page& page, const ShownTile& tile) {
  if (tile.want == nullptr)
    throw UsageError("--as heat: there are no errors to draw, the tile is not judged");
  constexpr int label_width = 6;
  constexpr int lines_around = 9;  // title, head, legend, the prompt
  const Style& style = page.style();
  const TileElements elements(tile);
  const auto step = [](std::int64_t count, std::int64_t room) {
    return room <= 0 ? std::int64_t{1} : (count + room - 1) / room;
  };
  const std::int64_t lines = std::max(style.height - lines_around, 4);
  const std::int64_t row_step =
      style.height == 0 ? 1 : step(elements.rows.count(), style.colour ? 2 * lines : lines);
  const std::int64_t col_step = step(elements.cols.count(), std::max(style.width - label_width, 8));
  const HeatMap map(tile, elements, std::max<std::int64_t>(row_step, 1),
                    std::max<std::int64_t>(col_step, 1));
  page.line();
  page.line(column_head(map, elements.cols.begin, label_width), Colour::dim);
  const std::int64_t rows_per_line = style.colour ? 2 : 1;
  for (std::int64_t row = 0; row < map.rows; row += rows_per_line) {
    const std::string label = std::to_string(elements.rows.begin + row * map.row_step);
    std::string line = coloured(right(label, label_width - 1), Colour::dim, style) + " ";
    for (std::int64_t col = 0; col < map.cols; ++col) {
      const Heat heat = map.at(row, col);
      line += style.colour ? half_blocks(heat, map.at(row + 1, col))
                           : std::string(1, letters[static_cast<std::size_t>(heat)]);
    }
    page.whole(line);
  }
  page.whole(right("", label_width) + legend(map, style) + "   error / bound");
  if (map.row_step > 1 || map.col_step > 1) {
    page.whole(right("", label_width) + "a cell is the worst of " + std::to_string(map.row_step) +
               " x " + std::to_string(map.col_step) + " elements");
  }
}

}  // namespace lanescope

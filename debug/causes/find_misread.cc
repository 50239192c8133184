#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "debug/causes/product_operand.h"

namespace lanescope {
namespace {

using reference::Index;

/// How a tile of `rows` rows lies in memory: row after row, or column after column.
struct Order {
  bool by_column;
  Index stride;
  Index at(Index row, Index col) const {
    return by_column ? col * stride + row : row * stride + col;
  }
};

/// A tile stored in one order and read in another, in blocks that each begin where they should.
struct Misread {
  Order stored, read;
  Index block;  ///< side of a block, 0: the whole tile
};

/// Whether `e` was read so: its elements that follow from it agree with it.
bool explains(const Misread& misread, const ProductOperand& e) {
  const Index rows = e.right.rows(), cols = e.right.cols();
  const auto [stored, read, block] = misread;
  const Index length = stored.by_column ? rows : cols;
  Index known = 0, missed = 0;
  for (Index row = 0; row < rows; ++row) {
    for (Index col = 0; col < cols; ++col) {
      const Index in_row = block == 0 ? row : row % block, in_col = block == 0 ? col : col % block;
      const Index address = stored.at(row - in_row, col - in_col) + read.at(in_row, in_col);
      const Index line = address / stored.stride, place = address % stored.stride;
      if (place >= length || line >= e.right.size() / length) continue;  // padding, or another tile
      const double right = stored.by_column ? e.right(place, line) : e.right(line, place);
      ++known;
      missed += !(std::abs(e.used(row, col) - right) <= e.noise(row, col) + 1e-4 * std::abs(right));
      if (missed > e.right.size() / 50) return false;
    }
  }
  return 2 * known >= e.right.size() && 50 * missed <= known;
}

}  // namespace

void find_misread(const ProductOperand& e, Findings& findings) {
  if (!is_sharp(e)) return;
  const Index rows = e.right.rows(), cols = e.right.cols();
  std::vector<Misread> ways;
  for (const Index block : {Index(0), Index(16), Index(8), Index(32)}) {
    if (block != 0 && (rows % block != 0 || cols % block != 0)) continue;
    if (block != 0 || rows == cols) ways.push_back({{false, cols}, {true, cols}, block});
  }
  constexpr Index pads[] = {0, 8, 4, 16, 1, 2};
  for (const bool by_column : {false, true}) {
    for (const Index pad : pads) {
      const Order stored{by_column, (by_column ? rows : cols) + pad};
      for (const bool read_by_column : {false, true}) {
        for (const Index side : {rows, cols}) {
          for (const Index other : pads) {
            const Order read{read_by_column, side + other};
            if (read.by_column == stored.by_column && read.stride == stored.stride) continue;
            for (const Index block : {Index(0), Index(16), Index(8)}) {
              if (block != 0 && (rows % block != 0 || cols % block != 0)) continue;
              ways.push_back({stored, read, block});
            }
          }
        }
      }
    }
  }
  const auto way = std::find_if(ways.begin(), ways.end(),
                                [&](const Misread& misread) { return explains(misread, e); });
  if (way == ways.end()) return;
  const bool exchanged = way->stored.by_column != way->read.by_column;
  Finding finding{exchanged ? Cause::transposed : Cause::wrong_stride, 1};
  const std::string where = way->block == 0 ? "the whole tile"
                                            : "each " + std::to_string(way->block) + "x" +
                                                  std::to_string(way->block) + " block";
  if (exchanged) {
    finding.evidence = {"in the product, " + e.outer + " and " + e.depth + " are exchanged in " +
                        where + " of the operand"};
  }
  if (way->stored.stride != way->read.stride) {
    finding.evidence.push_back("the operand is stored every " + std::to_string(way->stored.stride) +
                               " elements and read every " + std::to_string(way->read.stride) +
                               " in " + where);
  }
  findings.push_back(finding);
}

}  // namespace lanescope

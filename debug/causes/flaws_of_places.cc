#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// From where an operand's elements are taken in its tile in shared memory.
struct Reading {
  Cause cause;
  std::string text;
  int choices;
  TileMap from;
};

/// Tiles of vectors that are stored by columns and read by rows.
void add_exchanged_vectors(const DumpInfo& info, std::vector<Reading>& readings) {
  const std::int64_t d = info.problem.d, rows = info.bc;
  for (const std::int64_t vector : {1, 2, 4, 8}) {
    const std::int64_t width = d / vector;
    if (d % vector != 0 || width < 2 || (vector == 1 && width == rows)) continue;
    readings.push_back({Cause::transposed,
                        "by rows that was stored by columns" +
                            (vector > 1 ? ", in vectors of " + std::to_string(vector) : ""),
                        1, [=](std::int64_t row, std::int64_t col) {
                          const std::int64_t at = col / vector * rows + row;
                          return ElementPlace{at / width, at % width * vector + col % vector};
                        }});
  }
}

/// Tiles whose rows are read at another distance than they are stored at, or transposed.
void add_distances(std::int64_t d, std::vector<Reading>& readings) {
  readings.push_back({Cause::transposed, "with rows and columns exchanged", 0,
                      [](std::int64_t row, std::int64_t col) {
                        return ElementPlace{col, row};
                      }});
  for (const std::int64_t padding : {1, 2, 4, 8, 16}) {
    const auto at = [](std::int64_t row, std::int64_t col, std::int64_t read, std::int64_t stored) {
      const std::int64_t flat = row * read + col;
      return ElementPlace{flat / stored, flat % stored};  // beyond d: the padding
    };
    const std::string elements = std::to_string(padding) + (padding > 1 ? " elements" : " element");
    readings.push_back(
        {Cause::wrong_stride, "without the " + elements + " of padding of a row", 1,
         [=](std::int64_t row, std::int64_t col) { return at(row, col, d, d + padding); }});
    readings.push_back(
        {Cause::wrong_stride, "as if a row had " + elements + " of padding", 1,
         [=](std::int64_t row, std::int64_t col) { return at(row, col, d + padding, d); }});
  }
}

/// Chunks of 16 bytes that stand at their number xor that of the row, in some of its bits: read
/// with other bits of it than they were stored with.
void add_swizzles(std::int64_t d, std::vector<Reading>& readings) {
  constexpr std::int64_t chunk = 8;
  for (const std::int64_t bits : {7, 6, 5, 4, 3, 2, 1}) {
    for (const std::int64_t rows : {1, 2, 4}) {
      if (bits * chunk >= d || (rows > 1 && bits != 7 && bits != 3 && bits != 1)) continue;
      const std::string by = rows > 1 ? "row / " + std::to_string(rows) : "the row";
      readings.push_back({Cause::permuted,
                          "in a swizzle that differs in the bits " + std::to_string(bits) + " of " +
                              by + " (chunks of 16 bytes)",
                          1 + (rows > 1), [=](std::int64_t row, std::int64_t col) {
                            return ElementPlace{row, col ^ (row / rows & bits) * chunk};
                          }});
    }
  }
}

void add_exchanges(const DumpInfo& info, std::vector<Reading>& readings) {
  for (const bool odd : {false, true}) {
    readings.push_back({Cause::wrong_source,
                        std::string("with the ") + (odd ? "odd" : "even") + " columns twice", 1,
                        [=](std::int64_t row, std::int64_t col) {
                          return ElementPlace{row, col / 2 * 2 + odd};
                        }});
  }
  for (const std::int64_t bit : {1, 2, 4, 8, 16, 32}) {
    const std::string by = " i xor " + std::to_string(bit) + " in the place of ";
    if (bit < info.bc) {
      readings.push_back({Cause::permuted, "key" + by + "key i of a tile", 1,
                          [=](std::int64_t row, std::int64_t col) {
                            return ElementPlace{row ^ bit, col};
                          }});
    }
    if (bit < info.problem.d) {
      readings.push_back(
          {Cause::permuted, "column" + by + "column i", 1, [=](std::int64_t row, std::int64_t col) {
             return ElementPlace{row, col ^ bit};
           }});
    }
  }
}

/// Groups of keys in a tile that all take the rows of the first.
void add_groups(const DumpInfo& info, std::vector<Reading>& readings) {
  for (const std::int64_t keys : {2, 4, 8, 16, 32}) {
    if (keys >= info.bc) continue;
    readings.push_back({Cause::operand_of_other_row,
                        "key i mod " + std::to_string(keys) + " in the place of key i of a tile", 1,
                        [=](std::int64_t row, std::int64_t col) {
                          return ElementPlace{row % keys, col};
                        }});
  }
}

/// What stands in the place of column i where every so manyth of them is a lane's, which has its
/// own side by side.
struct ColumnOrder {
  std::string column;
  TileMap from;
};

std::vector<ColumnOrder> column_orders(std::int64_t columns) {
  std::vector<ColumnOrder> all;
  for (std::int64_t width = 2; width < columns; ++width) {
    if (columns % width != 0) continue;
    const std::int64_t apart = columns / width;
    all.push_back({"i mod " + std::to_string(width) + " * " + std::to_string(apart) + " + i / " +
                       std::to_string(width),
                   [=](std::int64_t row, std::int64_t col) {
                     return ElementPlace{row, col % width * apart + col / width};
                   }});
  }
  return all;
}

/// Columns of K that are multiplied with those of Q in another order, and keys of P with those of
/// V.
void add_orders(const DumpInfo& info, Flaws& flaws) {
  for (const auto& [column, from] : column_orders(info.problem.d)) {
    flaws.push_back({Cause::permuted, Stage::qk,
                     "in which column " + column + " of K meets column i of Q", 1,
                     [from = from](RowPlan& plan) { plan.k_from = from; }});
  }
  for (const auto& [key, from] : column_orders(info.bc)) {
    flaws.push_back({Cause::permuted, Stage::pv,
                     "in which P of key " + key + " of a tile meets row i of V", 1,
                     [from = from, len_kv = info.problem.len_kv](RowPlan& plan) {
                       take_weights_from(from, len_kv, plan);
                     }});
  }
}

/// Keys of a tile, or columns of a row, in whose numbers two bits are exchanged: lanes, registers
/// and halves of registers that are counted in another order.
void add_exchanged_bits(const DumpInfo& info, Flaws& flaws) {
  const auto exchanged = [](std::int64_t i, std::int64_t low, std::int64_t high) {
    const bool differ = ((i & low) != 0) != ((i & high) != 0);
    return differ ? i ^ low ^ high : i;
  };
  for (std::int64_t low = 1; 2 * low < std::max<std::int64_t>(info.bc, info.problem.d); low *= 2) {
    for (std::int64_t high = 2 * low; high < std::max<std::int64_t>(info.bc, info.problem.d);
         high *= 2) {
      const std::string bits =
          "the bits " + std::to_string(low) + " and " + std::to_string(high) + " of their number";
      const TileMap of_rows = [=](std::int64_t row, std::int64_t col) {
        return ElementPlace{exchanged(row, low, high), col};
      };
      const TileMap of_columns = [=](std::int64_t row, std::int64_t col) {
        return ElementPlace{row, exchanged(col, low, high)};
      };
      if (high < info.bc) {
        const std::string text = " is read with " + bits + " exchanged between its keys";
        flaws.push_back({Cause::permuted, Stage::pv, "in which a tile of V" + text, 1,
                         [=](RowPlan& plan) { plan.v_from = of_rows; }});
        flaws.push_back({Cause::permuted, Stage::qk, "in which a tile of K" + text, 1,
                         [=](RowPlan& plan) { plan.k_from = of_rows; }});
      }
      if (high >= info.problem.d) continue;
      const std::string text = " with " + bits + " exchanged between its columns";
      flaws.push_back({Cause::permuted, Stage::qk, "in which a tile of K is read" + text, 1,
                       [=](RowPlan& plan) { plan.k_from = of_columns; }});
      flaws.push_back(
          {Cause::permuted, Stage::epilogue, "whose O is stored" + text, 1, [=](RowPlan& plan) {
             plan.o_column = [=](std::int64_t col) { return exchanged(col, low, high); };
           }});
    }
  }
}

/// Steps of a product whose operand stays at the first, or goes half as far as it should: along the
/// columns of Q and K, or along the keys of P and V.
void add_short_steps(const DumpInfo& info, Flaws& flaws) {
  const std::int64_t d = info.problem.d;
  for (const std::int64_t step : {8, 16, 32}) {
    const int choices = step == 16 ? 0 : 1;  // the depth of a product on tensor cores
    for (const std::int64_t way : {std::int64_t{0}, step / 2}) {
      const auto from = [=](std::int64_t i) { return i / step * way + i % step; };
      const std::string size = std::to_string(step);
      const std::string text = way == 0
                                   ? " stays at the first " + size + " in all steps of a product"
                                   : " goes on by " + std::to_string(way) + " in steps of " + size;
      const TileMap of_columns = [=](std::int64_t row, std::int64_t col) {
        return ElementPlace{row, from(col)};
      };
      const TileMap of_rows = [=](std::int64_t row, std::int64_t col) {
        return ElementPlace{from(row), col};
      };
      if (step < d) {
        flaws.push_back({Cause::wrong_source, Stage::qk, "in which K's column" + text, choices,
                         [=](RowPlan& plan) { plan.k_from = of_columns; }});
        flaws.push_back({Cause::wrong_source, Stage::qk, "in which Q's column" + text, choices,
                         [=](RowPlan& plan) { plan.q_from = of_columns; }});
        flaws.push_back({Cause::contribution_repeated, Stage::qk,
                         "in which the column of both Q and K" + text, choices, [=](RowPlan& plan) {
                           std::fill(plan.depth.begin(), plan.depth.end(), 0);
                           for (std::int64_t col = 0; col < d; ++col) {
                             plan.depth[static_cast<std::size_t>(from(col))] += 1;
                           }
                         }});
      }
      if (step >= info.bc) continue;
      flaws.push_back({Cause::operand_of_other_row, Stage::pv, "in which P's key" + text, choices,
                       [=, len_kv = info.problem.len_kv](RowPlan& plan) {
                         take_weights_from(of_columns, len_kv, plan);
                       }});
      // That V stays there the groups of keys have.
      if (way == 0) continue;
      flaws.push_back({Cause::operand_of_other_row, Stage::pv, "in which V's key" + text, choices,
                       [=](RowPlan& plan) { plan.v_from = of_rows; }});
    }
  }
}

/// Steps of the second product that are left out: some keys of each tile.
void add_depths(const DumpInfo& info, Flaws& flaws) {
  for (const std::int64_t step : std::set<std::int64_t>{8, 16, info.bc / 2}) {
    if (step == 0 || step >= info.bc) continue;
    for (std::int64_t first = 0; first < info.bc; first += step) {
      const std::int64_t end = std::min<std::int64_t>(first + step, info.bc);
      flaws.push_back({Cause::contribution_missing, Stage::pv,
                       "in which O lacks the keys " + std::to_string(first) + " to " +
                           std::to_string(end - 1) + " of each tile",
                       1, [=, bc = info.bc](RowPlan& plan) {
                         for (Term& term : plan.terms) {
                           const std::int64_t in_tile = term.key % bc;
                           if (in_tile >= first && in_tile < end) term.in_o = 0;
                         }
                       }});
    }
  }
}

}  // namespace

void add_flaws_of_places(const DumpInfo& info, Flaws& flaws) {
  std::vector<Reading> readings;
  add_distances(info.problem.d, readings);
  add_exchanged_vectors(info, readings);
  add_swizzles(info.problem.d, readings);
  add_exchanges(info, readings);
  add_groups(info, readings);
  for (const auto& [cause, text, choices, from] : readings) {
    for (const bool of_v : {true, false}) {
      flaws.push_back(
          {cause, of_v ? Stage::pv : Stage::qk,
           std::string("in which a tile of ") + (of_v ? "V" : "K") + " is read " + text, choices,
           [=, from = from](RowPlan& plan) { (of_v ? plan.v_from : plan.k_from) = from; }});
    }
  }
  add_orders(info, flaws);
  add_flaws_of_weights(info, flaws);
  add_exchanged_bits(info, flaws);
  add_short_steps(info, flaws);
  add_depths(info, flaws);
}

}  // namespace lanescope

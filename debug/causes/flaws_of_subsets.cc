#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

using Term = RowPlan::Term;

/// Some of the numbers below a width: rows or columns of a tile.
struct Part {
  std::string text;
  std::function<bool(std::int64_t)> holds;
};

/// What loops that are too short, lanes and halves leave out: ends, blocks, bits of the number.
std::vector<Part> parts_of(std::int64_t width, const std::string& what) {
  std::vector<Part> parts;
  const auto add_range = [&](std::int64_t begin, std::int64_t end) {
    const std::string text = end == begin + 1
                                 ? std::to_string(begin)
                                 : std::to_string(begin) + " to " + std::to_string(end - 1);
    parts.push_back({what + " " + text, [=](std::int64_t i) { return i >= begin && i < end; }});
  };
  for (std::int64_t count = 1; count < width; count *= 2) {
    add_range(0, count);
    add_range(width - count, width);
  }
  for (const std::int64_t size : {8, 16, 32}) {
    for (std::int64_t first = size; first + 2 * size <= width; first += size) {
      add_range(first, first + size);
    }
  }
  for (std::int64_t bit = 1; 2 * bit < width; bit *= 2) {
    for (const bool set : {true, false}) {
      parts.push_back(
          {what + " whose bit " + std::to_string(bit) + (set ? " is set" : " is not set"),
           [=](std::int64_t i) { return ((i & bit) != 0) == set; }});
    }
  }
  for (std::int64_t lane = 0; lane < 4 && width >= 8; ++lane) {
    parts.push_back({what + " of lane " + std::to_string(lane) + " of four (layout of mma.m16n8)",
                     [=](std::int64_t i) { return i / 2 % 4 == lane; }});
  }
  // One of the four that a lane has of a row in pairs, half a row apart.
  for (std::int64_t own = 0; own < 4 && width >= 8; ++own) {
    parts.push_back(
        {std::string(own % 2 == 0 ? "even " : "odd ") + what + " of the " +
             (own < 2 ? "first" : "second") + " half",
         [=](std::int64_t i) { return i % 2 == own % 2 && (i >= width / 2) == (own >= 2); }});
  }
  return parts;
}

/// Which keys of which tiles.
struct Keys {
  std::string text;
  int choices;
  std::int64_t width;  ///< of a tile
  std::function<bool(const RowPlan&, std::int64_t key)> hold;
};

std::vector<Keys> keys_of(const DumpInfo& info) {
  std::vector<Keys> all;
  for (const std::int64_t width : tile_sizes(info)) {
    const std::string size = size_text(info, width);
    const int other = width != info.bc;
    for (const Part& part : parts_of(width, "keys")) {
      all.push_back({part.text + " of each tile" + size, 1 + other, width,
                     [=, holds = part.holds](const RowPlan&, std::int64_t key) {
                       return holds(key % width);
                     }});
    }
    if (other) continue;
    for (const SomeTiles& some : some_tiles(info)) {
      const auto in_tile = [=, in = some.holds](const RowPlan& plan, std::int64_t key) {
        return in(plan, key / width);
      };
      all.push_back({"the keys of " + some.text, 2, width, in_tile});
      for (const Part& part : parts_of(width, "keys")) {
        all.push_back({part.text + " of " + some.text, 3, width,
                       [=, holds = part.holds](const RowPlan& plan, std::int64_t key) {
                         return holds(key % width) && in_tile(plan, key);
                       }});
      }
    }
  }
  return all;
}

/// Keys that count not at all or twice, in one sum or in both.
void add_counts(const Keys& keys, Flaws& flaws) {
  for (const int times : {0, 2}) {
    for (const int which : {0, 1, 2}) {
      const char* const sums[] = {"O and l ", "O ", "l "};
      const bool missing = times == 0;
      flaws.push_back(
          {missing ? Cause::contribution_missing : Cause::contribution_repeated,
           which == 0   ? Stage::qk
           : which == 1 ? Stage::pv
                        : Stage::softmax,
           std::string("in which ") + sums[which] +
               (which == 0 ? (missing ? "lack " : "count ") : (missing ? "lacks " : "counts ")) +
               keys.text + (missing ? "" : " twice"),
           keys.choices + (missing ? 0 : 1), [=, hold = keys.hold](RowPlan& plan) {
             for (Term& term : plan.terms) {
               if (!hold(plan, term.key)) continue;
               if (which != 2) term.in_o = times;
               if (which != 1) term.in_l = times;
             }
           }});
    }
  }
}

/// Rows of K and V in the place of those of some keys.
void add_sources_of_rows(const DumpInfo& info, const Keys& keys, Flaws& flaws) {
  struct Source {
    Cause cause;
    std::string text;
    std::function<std::int64_t(std::int64_t key)> row;
  };
  const std::int64_t width = keys.width, len = info.problem.len_kv;
  std::vector<Source> sources = {
      {Cause::written_zero, "zeros", [](std::int64_t) { return std::int64_t{-1}; }},
      {Cause::stale_operand, "those of the tile before",
       [=](std::int64_t key) { return key < width ? key : key - width; }},
      {Cause::stale_operand, "those of two tiles before",
       [=](std::int64_t key) { return key < 2 * width ? key : key - 2 * width; }},
      {Cause::stale_operand, "those of the next tile",
       [=](std::int64_t key) { return key + width; }},
      {Cause::operand_of_other_row, "the tile's first",
       [=](std::int64_t key) { return key / width * width; }},
      {Cause::operand_of_other_row, "those before", [](std::int64_t key) { return key - 1; }},
      {Cause::operand_of_other_row, "those behind", [](std::int64_t key) { return key + 1; }},
  };
  for (std::int64_t bit = 1; bit < width; bit *= 2) {
    // Where the keys go in pairs, they change places.
    bool in_pairs = true;
    for (std::int64_t key = 0; key < width && in_pairs; ++key) {
      in_pairs = keys.hold({}, key) == keys.hold({}, key ^ bit);
    }
    sources.push_back({in_pairs ? Cause::permuted : Cause::wrong_source,
                       "those i xor " + std::to_string(bit),
                       [=](std::int64_t key) { return key ^ bit; }});
  }
  for (const Source& source : sources) {
    for (const int which : {0, 1, 2}) {
      // Without V, O lacks the keys.
      if (which == 2 && source.cause == Cause::written_zero) continue;
      const char* const tensors[] = {"K and V", "K", "V"};
      const bool stale = source.cause == Cause::stale_operand;
      flaws.push_back({source.cause,
                       !stale || which == 0 ? Stage::load
                       : which == 1         ? Stage::qk
                                            : Stage::pv,
                       std::string("in which rows of ") + tensors[which] + " are " + source.text +
                           " for " + keys.text,
                       keys.choices + 1, [=, hold = keys.hold, row = source.row](RowPlan& plan) {
                         for (Term& term : plan.terms) {
                           if (!hold(plan, term.key)) continue;
                           const std::int64_t from = row(term.key);
                           const std::int64_t other = from >= 0 && from < len ? from : -1;
                           if (which != 1) term.value = other;
                           if (which != 2) term.key = other;
                         }
                       }});
    }
  }
}

/// Columns of the first product that are missing or count twice, of O that are zero.
void add_parts_of_columns(const DumpInfo& info, Flaws& flaws) {
  const std::int64_t d = info.problem.d;
  const double root = std::sqrt(static_cast<double>(d));
  struct Times {
    double times;
    Cause cause;
    const char* text;
  };
  const Times all[] = {{0, Cause::contribution_missing, "lacks"},
                       {2, Cause::contribution_repeated, "counts twice"},
                       {root, Cause::scale_missing, "has without the scale"},
                       {1 / root, Cause::scale_repeated, "has with the scale twice"}};
  for (const Part& part : parts_of(d, "columns")) {
    for (const auto& [times, cause, text] : all) {
      flaws.push_back({cause, Stage::qk, std::string("whose q.k ") + text + " the " + part.text, 2,
                       [=, times = times, holds = part.holds](RowPlan& plan) {
                         for (std::int64_t i = 0; i < d; ++i) {
                           if (holds(i)) plan.depth[static_cast<std::size_t>(i)] = times;
                         }
                       }});
    }
    flaws.push_back({Cause::written_zero, Stage::epilogue, "whose O is zero in the " + part.text, 2,
                     [=, holds = part.holds](RowPlan& plan) {
                       plan.o_column = [=](std::int64_t col) { return holds(col) ? -1 : col; };
                     }});
  }
  struct Map {
    Cause cause;
    std::string text;
    std::function<std::int64_t(std::int64_t)> from;
  };
  std::vector<Map> maps;
  for (std::int64_t bit = 1; bit < d; bit *= 2) {
    const std::string number = std::to_string(bit);
    maps.push_back({Cause::wrong_source, "those of column i without its bit " + number,
                    [=](std::int64_t col) { return col & ~bit; }});
    maps.push_back({Cause::wrong_source, "those of column i with its bit " + number,
                    [=](std::int64_t col) { return col | bit; }});
    maps.push_back({Cause::permuted, number + " before their place",
                    [=](std::int64_t col) { return (col + bit) % d; }});
    maps.push_back({Cause::permuted, number + " before their place, zeros at the end",
                    [=](std::int64_t col) { return col + bit; }});
    maps.push_back({Cause::permuted, number + " behind their place, zeros at the start",
                    [=](std::int64_t col) { return col - bit; }});
    maps.push_back({Cause::permuted, "in reverse order in every " + number,
                    [=](std::int64_t col) { return col / bit * bit + bit - 1 - col % bit; }});
  }
  for (const auto& [cause, text, column] : maps) {
    const TileMap place = [from = column](std::int64_t row, std::int64_t col) {
      return ElementPlace{row, from(col)};
    };
    flaws.push_back({cause, Stage::qk, "in which the columns of Q are " + text, 2,
                     [=](RowPlan& plan) { plan.q_from = place; }});
    for (const bool of_v : {false, true}) {
      flaws.push_back(
          {cause, of_v ? Stage::pv : Stage::qk,
           std::string("in which the columns of ") + (of_v ? "V" : "K") + " are " + text, 2,
           [=](RowPlan& plan) { (of_v ? plan.v_from : plan.k_from) = place; }});
    }
  }
}

/// Scores of some tiles that have another factor: the loops with and without a mask are two.
void add_scales_of_tiles(const DumpInfo& info, Flaws& flaws) {
  const double root = std::sqrt(static_cast<double>(info.problem.d));
  struct Factor {
    Cause cause;
    const char* text;
    double value;
  };
  const Factor factors[] = {{Cause::wrong_scale, "are not scaled", root},
                            {Cause::wrong_scale, "are scaled twice", 1 / root},
                            {Cause::wrong_base, "lack log2(e)", std::numbers::ln2},
                            {Cause::wrong_base, "have log2(e) twice", std::numbers::log2e}};
  for (const auto& [cause, text, value] : factors) {
    for (const SomeTiles& some : some_tiles(info)) {
      flaws.push_back({cause, Stage::qk, "whose scores of " + some.text + " " + text, 2,
                       [=, value = value, holds = some.holds](RowPlan& plan) {
                         RowPlan place = plan;
                         place.terms.clear();
                         plan.tile_scale = value;
                         plan.in_tiles = [=](std::int64_t tile) { return holds(place, tile); };
                       }});
    }
  }
}

}  // namespace

void add_flaws_of_subsets(const DumpInfo& info, Flaws& flaws) {
  for (const Keys& keys : keys_of(info)) {
    add_counts(keys, flaws);
    add_sources_of_rows(info, keys, flaws);
  }
  add_parts_of_columns(info, flaws);
  add_scales_of_tiles(info, flaws);
}

}  // namespace lanescope

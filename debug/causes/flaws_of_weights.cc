#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "debug/causes/flaw_families.h"
#include "debug/text/text.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

/// The rows of P that a row of O is made of, and the keys of P that a row of V has.
void add_weights(const DumpInfo& info, Flaws& flaws) {
  const auto add = [&](const std::string& text, const TileMap& from) {
    flaws.push_back({Cause::operand_of_other_row, Stage::pv, "in which P of " + text, 1,
                     [=, len_kv = info.problem.len_kv](RowPlan& plan) {
                       take_weights_from(from, len_kv, plan);
                     }});
  };
  for (const std::int64_t rows : {2, 4, 8, 16, 32}) {
    if (rows > info.br) continue;
    add("each row is that of the first of " + std::to_string(rows),
        [=](std::int64_t row, std::int64_t col) {
          return ElementPlace{row / rows * rows, col};
        });
    add("row i is that of row i xor " + std::to_string(rows / 2),
        [=](std::int64_t row, std::int64_t col) {
          return ElementPlace{row ^ rows / 2, col};
        });
  }
  for (const std::int64_t keys : {2, 4, 8}) {
    if (keys >= info.bc) continue;
    flaws.push_back({Cause::wrong_source, Stage::pv,
                     "in which each key has P of the first of " + std::to_string(keys), 1,
                     [=, len_kv = info.problem.len_kv](RowPlan& plan) {
                       take_weights_from(
                           [=](std::int64_t row, std::int64_t col) {
                             return ElementPlace{row, col / keys * keys};
                           },
                           len_kv, plan);
                     }});
  }
}

/// Pieces of S, as fragments and matrices are, stored column by column and read row by row.
void add_exchanged_scores(Flaws& flaws) {
  for (const std::int64_t size : {16, 8}) {
    const std::string sides = std::to_string(size) + " x " + std::to_string(size);
    flaws.push_back({Cause::transposed, Stage::qk,
                     "in which each " + sides + " scores have rows and columns exchanged",
                     size == 16 ? 0 : 1, [=](RowPlan& plan) { plan.score_piece = size; }});
  }
}

/// P stored as [key, query] and read as [query, key].
void add_exchanged_weights(const DumpInfo& info, Flaws& flaws) {
  if (info.br != info.bc) return;
  flaws.push_back({Cause::transposed, Stage::pv,
                   "in which a tile of P is read with rows and columns exchanged", 0,
                   [=, len_kv = info.problem.len_kv](RowPlan& plan) {
                     take_weights_from(
                         [](std::int64_t row, std::int64_t col) {
                           return ElementPlace{col, row};
                         },
                         len_kv, plan);
                   }});
}

/// P of a kernel that keeps it in e4m3, times a power of two that takes the largest beyond 448, the
/// greatest number there is (OCP 8-bit Floating Point Specification, 5.2); l has all of it.
void add_saturated_weights(const DumpInfo& info, Flaws& flaws) {
  constexpr double greatest = 448;
  if (info.dtype != ElementType::e4m3) return;
  for (int power = 9; power <= 12; ++power) {
    const double limit = std::ldexp(greatest, -power);
    flaws.push_back({Cause::clamped, Stage::softmax,
                     "in which P is cut off at " + number_text(limit, 6) + ", as 2^" +
                         std::to_string(power) + " P is in e4m3",
                     1, [=](RowPlan& plan) {
                       plan.p_kept = [=, before = plan.p_kept](double p) {
                         return std::min(before ? before(p) : p, limit);
                       };
                     }});
  }
}

}  // namespace

void take_weights_from(const TileMap& from, std::int64_t len_kv, RowPlan& plan) {
  plan.p_from = from;
  // Where the row itself sees no key, another may.
  const std::int64_t end = plan.tiles * plan.tile;
  for (auto key = std::ssize(plan.terms); key < end; ++key) {
    const std::int64_t row = key < len_kv ? key : -1;
    plan.terms.push_back({.key = row,
                          .value = row,
                          .in_l = 0,
                          .masked_score = -reference::infinity,
                          .is_masked = true});
  }
}

void add_flaws_of_weights(const DumpInfo& info, Flaws& flaws) {
  add_weights(info, flaws);
  add_exchanged_scores(flaws);
  add_exchanged_weights(info, flaws);
  add_saturated_weights(info, flaws);
}

}  // namespace lanescope

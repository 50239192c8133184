#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "debug/judge/judge.h"

namespace lanescope {

/// What a block held at one tile, as traced: the rows that exist, but of s all of the tile.
struct Visit {
  std::int64_t tile = 0;
  std::optional<reference::Array> s, m_prev, m, alpha, p, l, o;
  std::vector<double> top_scores;  ///< the maximum of each row of s. [br]
  reference::Array lanes_of_l;     ///< the sum of all slots of a row. [rows, 1]
  bool lanes_agree = true;         ///< all slots of a row hold the same l
  reference::TileState truth;
  reference::Visible visible;
  reference::Array v;
};

/// The tiles of a block that hold a key, upwards. Nothing where one of them was not traced, or m
/// was not, or slots of a row of m or alpha differ. `counted`: the last tile was traced as the
/// first.
std::optional<std::vector<Visit>> visits_of(const Judge& judge, std::int64_t block,
                                            bool counted = false);

/// Whether K and V of all blocks are right, but for the last tile being traced as the first: the
/// kernel goes downwards and numbers its visits.
bool loads_count_visits(const Judge& judge);

/// The same in the order in which the kernel came to them: what a row has summed up, l · 2^m,
/// grows; m times `unit` is in base 2.
std::vector<Visit> in_order_of_sums(std::vector<Visit> visits, double unit);

}  // namespace lanescope

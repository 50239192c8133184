#pragma once

#include "reference/array.h"
#include "reference/elementary.h"
#include "reference/site.h"

namespace lanescope::reference {

/// Whether m follows from m_prev to `top` by the rule, without regard to errors. score(j): of key j
/// of the tile, of `keys`, in base 2.
template <class Score>
bool rises(const RescaleRule& rule, double m_prev, double top, Index keys, const Score& score) {
  if (!rule.by_sums) return top > m_prev + rule.above;
  if (m_prev == -infinity) return true;
  double sum[4] = {};
  for (Index key = 0; key < keys; ++key) sum[key / 2 % 4] += power_of_2(score(key) - m_prev);
  const double limit = power_of_2(rule.above);
  return !(sum[0] <= limit && sum[1] <= limit && sum[2] <= limit && sum[3] <= limit);
}

}  // namespace lanescope::reference

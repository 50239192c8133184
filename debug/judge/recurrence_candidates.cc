#include "debug/judge/recurrence_candidates.h"

#include <algorithm>

namespace lanescope {
namespace {

int cost(const Candidate& c) {
  return (c.scores != Recurrence::Unit::base_2) + (c.maximum != c.scores) + (c.rows > 1) + c.kept +
         static_cast<int>(c.order) + 2 * (c.tiles > 1) + 2 * (c.chains > 1) + 2 * c.above;
}

}  // namespace

std::vector<Candidate> candidates(const DumpInfo& info) {
  const int br = info.br;
  std::vector<Candidate> all;
  const std::vector<Recurrence::Unit> units = {Recurrence::Unit::base_2, Recurrence::Unit::base_e,
                                               Recurrence::Unit::raw};
  for (const TileOrder order : {TileOrder::upwards, TileOrder::downwards, TileOrder::of_sums}) {
    for (const Recurrence::Unit scores : units) {
      if (info.scores != ScoreUnit::base_2 && scores != Recurrence::Unit::base_2) continue;
      for (const Recurrence::Unit maximum : units) {
        if (info.maxima != ScoreUnit::base_2 && maximum != Recurrence::Unit::base_2) continue;
        for (int number = 2; number <= 4; number *= 2) {
          all.push_back({scores, maximum, 1, false, order, number, 1});
          all.push_back({scores, maximum, 1, false, order, 1, number});
        }
        all.push_back({scores, maximum, 1, false, order, 1, 1, true});
        for (int rows = 1; rows <= br; rows *= 2) {
          all.push_back({scores, maximum, rows, false, order});
          if (rows == 1) all.push_back({scores, maximum, rows, true, order});
        }
      }
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return cost(a) < cost(b); });
  return all;
}

}  // namespace lanescope

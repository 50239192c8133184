#include "debug/causes/reduction.h"

#include <set>

#include "reference/rescale_rule.h"

namespace lanescope {

using reference::infinity;
using Array = Scene::Array;

Reduction::Reduction(const Scene& scene) {
  const std::int64_t tile = scene.tile();
  rule_ = scene.info().rescale;
  is_maximum_ = scene.site() == SiteId::m;
  const auto s = scene.scores(tile), m = scene.held(SiteId::m, tile);
  auto start = scene.held(SiteId::m_prev, tile);
  if (!start) start = scene.before(SiteId::m, tile);
  if (!s || !start || (scene.site() != SiteId::m && scene.site() != SiteId::l)) return;
  if (is_maximum_) {
    terms_ = *s;
    start_ = *start;
    for (reference::Index row = 0; rule_.by_sums && row < start_.rows(); ++row) {
      rises_.push_back(reference::rises(rule_, start_(row), infinity, s->cols(),
                                        [&](reference::Index key) { return (*s)(row, key); }));
    }
  } else {
    const auto l_prev = scene.before(SiteId::l, tile);
    if (!m || !l_prev) return;
    const Array shift = (*m == -infinity).select(0, *m);
    terms_ = (*s - shift).map([](double x) { return std::exp2(x); });
    start_ = (*start - shift).map([](double x) { return std::exp2(x); }) * *l_prev;
  }
  possible_ = true;
}

std::vector<LaneOf> lanes_of_columns(const Scene& scene, reference::Index col_count) {
  const SiteSlots* s = scene.judge().slots(SiteId::s);
  const auto row_count = static_cast<std::size_t>(scene.rows());
  const auto cols = static_cast<std::size_t>(col_count);
  LaneOf lane_of(row_count, std::vector<std::int64_t>(cols, -1));
  if (!s) return {};
  if (s->site().space == Space::registers) {
    for (std::int64_t slot = 0; slot < s->count(); ++slot) {
      const int row = s->row(slot), col = s->col(slot);
      if (row < 0 || row >= scene.rows()) continue;
      lane_of[static_cast<std::size_t>(row)][static_cast<std::size_t>(col)] = s->holder(slot).lane;
    }
    return {lane_of};
  }
  std::vector<std::set<std::int64_t>> holders(row_count);
  for (const Element& e : scene.elements()) {
    holders[static_cast<std::size_t>(e.row)].insert(e.holder.lane);
  }
  LaneOf in_turn = lane_of;
  for (std::size_t row = 0; row < row_count; ++row) {
    const std::vector<std::int64_t> lanes(holders[row].begin(), holders[row].end());
    if (lanes.size() < 2 || cols % lanes.size() != 0) return {};
    for (std::size_t col = 0; col < cols; ++col) {
      lane_of[row][col] = lanes[col / (cols / lanes.size())];
      in_turn[row][col] = lanes[col % lanes.size()];
    }
  }
  return {lane_of, in_turn};
}

}  // namespace lanescope

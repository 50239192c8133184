#include "debug/judge/visits.h"

#include <algorithm>
#include <cmath>

namespace lanescope {
namespace {

using reference::Array;
using reference::Index;

/// Whether all slots that stand for one of the first `rows` rows hold what the first of them does.
bool slots_agree(const SiteSlots& slots, std::int64_t block, std::int64_t tile, Index rows) {
  const Array held = slots.elements(block, tile, rows);
  const std::int64_t first = slots.first(block, tile);
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    const int row = slots.row(slot), col = slots.col(slot);
    if (row < 0 || row >= held.rows()) continue;
    if (!(slots.tensor().at(first + slot) == held(row, col))) return false;
  }
  return true;
}

Array sums_of_slots(const SiteSlots& slots, std::int64_t block, std::int64_t tile, Index rows) {
  Array sums = Array::Zero(rows, 1);
  const std::int64_t first = slots.first(block, tile);
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    const int row = slots.row(slot);
    if (row >= 0 && row < rows) sums(row) += slots.tensor().at(first + slot);
  }
  return sums;
}

/// Without those that are NaN: rows that the kernel never wrote.
std::vector<double> row_maxima(const Array& s) {
  std::vector<double> top(static_cast<std::size_t>(s.rows()), -INFINITY);
  for (Index row = 0; row < s.rows(); ++row) {
    for (Index col = 0; col < s.cols(); ++col) {
      double& own = top[static_cast<std::size_t>(row)];
      own = std::fmax(own, s(row, col));
    }
  }
  return top;
}

}  // namespace

bool loads_count_visits(const Judge& judge) {
  const Range& blocks = judge.dump().info.blocks;
  bool any = false;
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    const reference::OnlineBlock reference = judge.reference_of(block);
    const std::int64_t tiles = reference.needed_tiles();
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      for (const SiteId id : {SiteId::k_smem, SiteId::v_smem}) {
        const SiteSlots* slots = judge.slots(id);
        if (!slots) continue;
        const Array want = id == SiteId::k_smem ? reference.k_tile(tile) : reference.v_tile(tile);
        if (!slots->holds(block, tiles - 1 - tile)) return false;
        const Array held = slots->elements(block, tiles - 1 - tile, want.rows());
        if (held.cols() < want.cols() || !(held.left_cols(want.cols()) == want).all()) return false;
        any = any || tiles > 1;
      }
    }
  }
  return any;
}

std::optional<std::vector<Visit>> visits_of(const Judge& judge, std::int64_t block, bool counted) {
  reference::OnlineBlock reference = judge.reference_of(block);
  std::vector<Visit> visits;
  for (std::int64_t tile = 0; tile < reference.needed_tiles(); ++tile) {
    Visit visit;
    visit.tile = tile;
    visit.truth = reference.step(tile);
    visit.visible = reference.visible(tile);
    visit.v = reference.v_tile(tile);
    const std::int64_t traced_as = counted ? reference.needed_tiles() - 1 - tile : tile;
    const auto held = [&](SiteId id, Index rows) -> std::optional<Array> {
      const SiteSlots* slots = judge.slots(id);
      if (!slots || !slots->holds(block, traced_as)) return std::nullopt;
      const Array values = slots->elements(block, traced_as, rows);
      return is_maximum(id) ? values * reference.maximum_factor() : values;
    };
    const Index rows = reference.rows();
    visit.s = takes(judge.gate(), SiteId::s) ? visit.truth.s.value
                                             : held(SiteId::s, judge.dump().info.br);
    visit.m_prev = held(SiteId::m_prev, rows);
    visit.m = held(SiteId::m, rows);
    visit.alpha = held(SiteId::alpha, rows);
    visit.p = held(SiteId::p, rows);
    visit.l = held(SiteId::l, rows);
    visit.o = held(SiteId::o, rows);
    if (!visit.s || !visit.m) return std::nullopt;
    visit.top_scores = row_maxima(*visit.s);
    const auto agree = [&](SiteId id, const std::optional<Array>& values) {
      return !values || slots_agree(*judge.slots(id), block, traced_as, rows);
    };
    if (!agree(SiteId::m, visit.m) || !agree(SiteId::m_prev, visit.m_prev) ||
        !agree(SiteId::alpha, visit.alpha)) {
      return std::nullopt;
    }
    if (visit.l) {
      visit.lanes_of_l = sums_of_slots(*judge.slots(SiteId::l), block, traced_as, rows);
      visit.lanes_agree = judge.slots(SiteId::l)->sums_lanes() || agree(SiteId::l, visit.l);
    }
    visits.push_back(std::move(visit));
  }
  return visits;
}

std::vector<Visit> in_order_of_sums(std::vector<Visit> visits, double unit) {
  if (visits.empty() || !visits[0].l) return visits;
  constexpr double least_sum = -0x1p40;  // a row that has seen something is above one that has not
  // Of all rows that have seen something: one of them may have nothing to gain from a tile.
  const auto sum = [&](const Visit& visit) {
    double total = 0;
    for (Index row = 0; row < visit.m->rows(); ++row) {
      const double own = (*visit.m)(row)*unit + std::log2(std::fmax(visit.lanes_of_l(row), 0));
      if (own != -INFINITY) total += own - least_sum;
    }
    return total;
  };
  const auto is_number = [&](const Visit& visit) { return !std::isnan(sum(visit)); };
  if (!std::all_of(visits.begin(), visits.end(), is_number)) return visits;
  std::stable_sort(visits.begin(), visits.end(),
                   [&](const Visit& a, const Visit& b) { return sum(a) < sum(b); });
  return visits;
}

}  // namespace lanescope

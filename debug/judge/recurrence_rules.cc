#include "debug/judge/recurrence_rules.h"

#include <algorithm>
#include <cmath>

#include "debug/judge/compare.h"
#include "debug/judge/find_recurrence.h"
#include "debug/judge/recurrence_parts.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using reference::Array;
using reference::Bounded;
using reference::Index;
using reference::unit;

/// Below scores as they are, and far from infinity: what a maximum may start from. Kernels that
/// hold it in f16 take it for −∞.
constexpr double lowest_start = -1e4;

/// The maximum that neighbours share, of what each row takes. [br]
std::vector<double> shared_maxima(const std::vector<double>& own, int rows) {
  std::vector<double> shared = own;
  const auto group = static_cast<std::size_t>(rows);
  for (std::size_t first = 0; first < own.size(); first += group) {
    const std::size_t end = std::min(own.size(), first + group);
    const auto begin = own.begin() + static_cast<std::ptrdiff_t>(first);
    const double top = *std::max_element(begin, own.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::size_t i = first; i < end; ++i) shared[i] = top;
  }
  return shared;
}

/// The maximum of each row over the tiles that are taken in the step of visit `at`. [br]
std::vector<double> top_of_step(const std::vector<Visit>& visits, std::size_t at, int tiles) {
  const auto group = static_cast<std::size_t>(tiles);
  const std::size_t first = at / group * group;
  std::vector<double> top = visits[first].top_scores;
  for (std::size_t i = first + 1; i < std::min(visits.size(), first + group); ++i) {
    for (std::size_t row = 0; row < top.size(); ++row) {
      top[row] = std::fmax(top[row], visits[i].top_scores[row]);
    }
  }
  return top;
}

}  // namespace

bool all_hold(const Array& held, const Bounded& want) {
  for (Index row = 0; row < want.value.rows(); ++row) {
    for (Index col = 0; col < want.value.cols(); ++col) {
      if (!compare(held(row, col), want.value(row, col), want.error(row, col)).holds) return false;
    }
  }
  return true;
}

double conversion(bool converts, double value) {
  return converts && std::isfinite(value) ? 4 * unit * std::abs(value) : 0;
}

double start_of(const std::vector<Visit>& visits) {
  const Visit& first = visits.front();
  double start = -reference::infinity;
  for (Index row = 0; row < first.m->rows(); ++row) {
    const bool unseen = first.visible[static_cast<std::size_t>(row)] == 0;
    if (!first.m_prev && !unseen) continue;
    const double held = first.m_prev ? (*first.m_prev)(row) : (*first.m)(row);
    if (std::isfinite(held) && held <= lowest_start) start = held;
  }
  return start;
}

double Units::of(Recurrence::Unit of_unit) const {
  return of_unit == Recurrence::Unit::base_2   ? 1
         : of_unit == Recurrence::Unit::base_e ? reference::log2_e
                                               : raw;
}

bool scores_hold(const std::vector<Visit>& visits, double factor) {
  return std::all_of(visits.begin(), visits.end(), [&](const Visit& visit) {
    Bounded want = visit.truth.s;
    for (Index i = 0; i < want.value.size(); ++i) {
      want.error(i) += conversion(factor != 1, want.value(i));
    }
    return all_hold(*visit.s * factor, want);
  });
}

std::vector<Recurrence::Decision> possible_decisions(Index rows) {
  std::vector<Recurrence::Decision> all;
  for (int together = 1; together <= rows; together *= 2) {
    all.push_back({.rows = together});
    // A lane holds two rows of an accumulator (PTX ISA, mma.m16n8k16).
    if (together == 2 && rows >= 16) all.push_back({.rows = 2, .apart = 8});
  }
  return all;
}

void note_step(const std::vector<double>& rises, const Array& before, const Array& after,
               std::vector<Recurrence::Decision>& decisions) {
  const Index rows = std::ssize(rises);
  std::erase_if(decisions, [&](Recurrence::Decision& decision) {
    for (Index first = 0; first < rows; ++first) {
      if (first / decision.apart % decision.rows != 0) continue;
      double rise = -reference::infinity;
      bool kept = false, taken = false;
      for (int i = 0; i < decision.rows; ++i) {
        const Index row = first + i * decision.apart;
        if (row >= rows || rises[static_cast<std::size_t>(row)] == -reference::infinity) continue;
        rise = std::fmax(rise, rises[static_cast<std::size_t>(row)]);
        (after(row) == before(row) ? kept : taken) = true;
      }
      if (kept && taken) return true;
      if (kept) decision.kept_up_to = std::max(decision.kept_up_to, rise);
      if (taken && rise < -lowest_start / 2) {
        decision.taken_from = std::min(decision.taken_from, rise);
      }
    }
    return false;
  });
}

double above_of(const std::vector<Visit>& visits, double scores, double maximum) {
  const Visit& first = visits.front();
  for (Index row = 0; row < first.m->rows(); ++row) {
    const double top = first.top_scores[static_cast<std::size_t>(row)] * scores;
    if (std::isfinite(top) && std::isfinite((*first.m)(row))) {
      return (*first.m)(row)*maximum - top;
    }
  }
  return 0;
}

bool maxima_hold(const std::vector<Visit>& visits, double scores, double maximum, Recurrence& r) {
  const double start = start_of(visits);
  r.start = std::fmax(r.start, start);
  const Index rows = visits.front().m->rows();
  if (r.decisions.empty()) r.decisions = possible_decisions(rows);
  Array before = Array::Constant(rows, 1, start);
  for (std::size_t step = 0; step < visits.size(); ++step) {
    const Visit& visit = visits[step];
    if (visit.m_prev && !(*visit.m_prev == before).all()) return false;
    const Array& m = *visit.m;
    const auto top =
        shared_maxima(top_of_step(visits, step, r.tiles_per_maximum), r.rows_per_maximum);
    std::vector<double> rises(static_cast<std::size_t>(rows), -reference::infinity);
    bool kept = false;
    for (Index row = 0; row < rows; ++row) {
      const double own = top[static_cast<std::size_t>(row)] * scores + r.above;
      const double m_prev = before(row) * maximum;
      const double want = std::fmax(m_prev, own), held = m(row) * maximum;
      const bool exact = scores == 1 && maximum == 1 && r.above == 0;
      const double tolerance =
          exact ? 0 : 8 * unit * (std::abs(want) + std::abs(own) + 2 * std::abs(r.above));
      const bool follows = held == want || std::abs(held - want) <= tolerance;
      const bool rises_here = own - m_prev > tolerance || m_prev == -reference::infinity;
      if (!rises_here || own == -reference::infinity) {
        if (!follows) return false;
        continue;
      }
      rises[static_cast<std::size_t>(row)] = own - m_prev;
      if (m(row) == before(row)) {
        kept = true;
      } else if (!follows) {
        return false;
      }
    }
    if (kept && !r.kept) return false;
    note_step(rises, before, m, r.decisions);
    before = m;
  }
  return true;
}

std::vector<Recurrence::Decision> decisions_of(const Dump& dump) {
  const Judge judge(dump);
  const SiteSlots* slots = judge.slots(SiteId::m);
  std::vector<Recurrence::Decision> decisions;
  for (std::int64_t block = dump.info.blocks.begin; slots && block < dump.info.blocks.end;
       ++block) {
    const reference::OnlineBlock reference = judge.reference_of(block);
    if (decisions.empty()) decisions = possible_decisions(dump.info.br);
    for (std::int64_t tile = 1; tile < reference.needed_tiles(); ++tile) {
      if (!slots->holds(block, tile) || !slots->holds(block, tile - 1)) continue;
      const auto before = slots->elements(block, tile - 1, reference.rows());
      const auto after = slots->elements(block, tile, reference.rows());
      std::vector<double> rises(static_cast<std::size_t>(reference.rows()), -reference::infinity);
      for (reference::Index row = 0; row < reference.rows(); ++row) {
        const double rise = (after(row) - before(row)) * reference.maximum_factor();
        if (rise > 0) rises[static_cast<std::size_t>(row)] = rise;
      }
      note_step(rises, before, after, decisions);
    }
  }
  return decisions;
}

}  // namespace lanescope

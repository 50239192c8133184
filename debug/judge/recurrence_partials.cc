#include <cmath>

#include "debug/judge/compare.h"
#include "debug/judge/recurrence_rules.h"
#include "reference/elementary.h"
#include "reference/stage_errors.h"

namespace lanescope {

std::optional<Recurrence::Partials> partials_held(const Judge& judge) {
  using Partials = Recurrence::Partials;
  using reference::Array, reference::Index, reference::unit;
  const SiteSlots *o_slots = judge.slots(SiteId::o_partial),
                  *m_slots = judge.slots(SiteId::m_partial),
                  *l_slots = judge.slots(SiteId::l_partial);
  if (!o_slots || !m_slots || !l_slots) return std::nullopt;
  bool any = false, divided = true, shifted = true;
  const Range& blocks = judge.dump().info.blocks;
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    if (!o_slots->holds(block, 0)) continue;
    any = true;
    reference::OnlineBlock reference = judge.reference_of(block);
    for (std::int64_t tile = 0; tile < reference.needed_tiles(); ++tile) reference.step(tile);
    const reference::Partial truth = reference.partial();
    const Index rows = reference.rows();
    const Array m = m_slots->elements(block, 0, rows) * reference.maximum_factor(),
                l = l_slots->elements(block, 0, rows), o = o_slots->elements(block, 0, rows);
    for (Index row = 0; row < rows; ++row) {
      const double true_m = truth.m.value(row), true_l = truth.l.value(row);
      if (true_m == -reference::infinity) {
        const bool nothing =
            (l(row) == 0 || m(row) == -reference::infinity) && (o.row(row) == 0).all();
        divided = divided && nothing;
        shifted = shifted && nothing;
        continue;
      }
      const double weight = std::exp2(m(row) - true_m);
      // m + log2 l is rounded as a sum of its size, and as lg2.approx is.
      const double of_m = reference::ln_2 * (reference::stage_errors::lg2_error + 4 * unit) *
                          (1 + std::abs(m(row)) + std::abs(std::log2(true_l)));
      const double of_l = truth.l.error(row) / true_l + of_m;
      if (!compare(l(row) * weight, true_l, of_l * true_l).holds) return std::nullopt;
      for (Index col = 0; col < o.cols(); ++col) {
        const double want = truth.o.value(row, col), held = o(row, col) * weight;
        const double error = truth.o.error(row, col) + of_m * std::abs(want);
        shifted = shifted && compare(held, want, error).holds;
        divided = divided && compare(held * l(row), want, error + of_l * std::abs(want)).holds;
      }
    }
  }
  if (any && shifted) return Partials::shifted;
  return any && divided ? std::optional(Partials::divided) : std::nullopt;
}

}  // namespace lanescope

#include "debug/judge/recurrence_rules.h"

#include <algorithm>
#include <cmath>

#include "debug/judge/compare.h"
#include "reference/elementary.h"
#include "reference/stage_errors.h"

namespace lanescope {
namespace {

using reference::Array;
using reference::Bounded;
using reference::Index;
using reference::unit;

/// Below every score that there can be, and far from infinity: what a maximum may start
/// from.
constexpr double lowest_start = -1e20;

bool all_hold(const Array& held, const Bounded& want) {
  for (Index row = 0; row < want.value.rows(); ++row) {
    for (Index col = 0; col < want.value.cols(); ++col) {
      if (!compare(held(row, col), want.value(row, col), want.error(row, col)).holds) return false;
    }
  }
  return true;
}

/// Rounding of a number that is held in another unit, in base 2.
double conversion(double factor, double value) {
  return factor == 1 || !std::isfinite(value) ? 0 : 4 * unit * std::abs(value);
}

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

/// The finite number that m starts from, as m_prev of the first visit shows it, or m of a row that
/// has seen no key.
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

/// 2^(x − shift), x wrong by `error`, both as a kernel holds them.
reference::stage_errors::Number weight(double x, double error, double shift, double factor,
                                       double ex2_error) {
  const double held = std::isfinite(shift) ? shift : 0;
  auto p = reference::stage_errors::ex2(
      x - held, error + conversion(factor, held) + conversion(factor, x), 0);
  p.error += ex2_error * p.value;
  return p;
}

/// The scores of a visit in base 2 and how far rounding may have them off. [br, bc]
Bounded scores_in_base_2(const Visit& visit, double factor) {
  Bounded x{*visit.s * factor, Array::Zero(visit.s->rows(), visit.s->cols())};
  for (Index i = 0; i < x.value.size(); ++i) x.error(i) = conversion(factor, x.value(i));
  return x;
}

}  // namespace

double Units::of(Recurrence::Unit of_unit) const {
  return of_unit == Recurrence::Unit::base_2   ? 1
         : of_unit == Recurrence::Unit::base_e ? reference::log2_e
                                               : raw;
}

bool scores_hold(const std::vector<Visit>& visits, double factor) {
  return std::all_of(visits.begin(), visits.end(), [&](const Visit& visit) {
    Bounded want = visit.truth.s;
    for (Index i = 0; i < want.value.size(); ++i) {
      want.error(i) += conversion(factor, want.value(i));
    }
    return all_hold(*visit.s * factor, want);
  });
}

bool maxima_hold(const std::vector<Visit>& visits, double scores, double maximum, Recurrence& r) {
  const double start = start_of(visits);
  r.start = std::fmax(r.start, start);
  const Index rows = visits.front().m->rows();
  Array before = Array::Constant(rows, 1, start);
  for (std::size_t step = 0; step < visits.size(); ++step) {
    const Visit& visit = visits[step];
    if (visit.m_prev && !(*visit.m_prev == before).all()) return false;
    const Array& m = *visit.m;
    const auto top =
        shared_maxima(top_of_step(visits, step, r.tiles_per_maximum), r.rows_per_maximum);
    for (Index first = 0; first < rows; first += r.rows_per_decision) {
      double rise = -reference::infinity;
      bool kept = false, taken = false;
      for (Index row = first; row < std::min(rows, first + r.rows_per_decision); ++row) {
        const double own = top[static_cast<std::size_t>(row)] * scores;
        const double m_prev = before(row) * maximum;
        const double want = std::fmax(m_prev, own), held = m(row) * maximum;
        const double tolerance = scores == 1 && maximum == 1 ? 0 : 8 * unit * std::abs(want);
        const bool follows = held == want || std::abs(held - want) <= tolerance;
        const bool rises = own - m_prev > tolerance || m_prev == -reference::infinity;
        if (rises && own != -reference::infinity) rise = std::fmax(rise, own - m_prev);
        if (!rises || own == -reference::infinity) {
          if (!follows) return false;
        } else if (m(row) == before(row)) {
          kept = true;
        } else if (follows) {
          taken = true;
        } else {
          return false;
        }
      }
      if (kept && (taken || !r.kept)) return false;
      if (kept) r.kept_up_to = std::max(r.kept_up_to, rise);
      if (taken && rise < -lowest_start / 2) r.taken_from = std::min(r.taken_from, rise);
    }
    before = m;
  }
  return true;
}

void rest_holds(const Judge& judge, const std::vector<Visit>& visits, double scores, double maximum,
                double error, RestHolds& holds) {
  const reference::Arithmetic& arithmetic = judge.walk().arithmetic;
  const Index rows = visits.front().m->rows();
  const double factor = scores == 1 && maximum == 1 ? 1 : 2;  // whether any unit is another one
  Array m_prev = Array::Constant(rows, 1, start_of(visits)), l_prev = Array::Zero(rows, 1);
  std::optional<Array> o_prev = Array::Zero(rows, judge.dump().info.head_dim);
  Array first_m = Array::Constant(rows, 1, -reference::infinity);
  for (const Visit& visit : visits) {
    const Array& m = *visit.m;
    const Bounded x = scores_in_base_2(visit, scores);
    const Index keys = x.value.cols();
    Bounded alpha{Array::Zero(rows, 1), Array::Zero(rows, 1)};
    Bounded p{Array::Zero(rows, keys), Array::Zero(rows, keys)};
    Bounded l = alpha;
    for (Index row = 0; row < rows; ++row) {
      const double top = m(row) * maximum, from = m_prev(row) * maximum;
      const auto a = weight(from, 0, top, factor, error);
      const bool nothing_yet = l_prev(row) == 0;  // alpha multiplies zeros
      alpha.value(row) = nothing_yet ? 0.5 : a.value;
      alpha.error(row) = nothing_yet ? 0.5 : a.error;
      holds.first_alpha =
          holds.first_alpha || (nothing_yet && visit.alpha && top != -reference::infinity &&
                                !compare((*visit.alpha)(row), a.value, a.error).holds);
      for (Index key = 0; key < keys; ++key) {
        const auto one = weight(x.value(row, key), x.error(row, key), top, factor, error);
        p.value(row, key) = one.value;
        p.error(row, key) = one.error;
      }
    }
    const Array given = visit.alpha.value_or(alpha.value);
    if (visit.alpha && !all_hold(*visit.alpha, alpha)) holds.weights[0] = holds.weights[1] = false;

    const Array rescaled = l_prev * given;
    l.value = rescaled + p.value.row_sums();
    l.error = p.error.row_sums() + reference::gamma(keys + 64) * l.value;
    if (!visit.alpha) l.error += l_prev * alpha.error;
    if (visit.l) {
      holds.sums[0] = holds.sums[0] && visit.lanes_agree && all_hold(*visit.l, l);
      holds.sums[1] = holds.sums[1] && all_hold(visit.lanes_of_l, l);
      const bool is_rounded = visit.p && judge.slots(SiteId::p)->site().type != ElementType::f32;
      if (!is_rounded) holds.sums[2] = false;
      if (holds.sums[2]) {
        Bounded of_held{rescaled + visit.p->row_sums(), l.error};
        of_held.error = reference::gamma(keys + 64) * of_held.value;
        holds.sums[2] = visit.lanes_agree && all_hold(*visit.l, of_held);
      }
    }
    const bool in_lanes = holds.sums[0] || holds.sums[2];
    const Array sum = !visit.l ? l.value : in_lanes ? *visit.l : visit.lanes_of_l;
    const Array sum_error = visit.l ? Array::Zero(rows, 1) : l.error;
    const Array inverse = sum.map([](double y) { return y == 0 ? 0 : 1 / y; });
    const auto divided = [&](const Bounded& y) {
      return Bounded{y.value * inverse,
                     (y.error + y.value.abs() * (sum_error * inverse + 4 * unit)) * inverse};
    };
    const Bounded early = divided(p);
    const ElementType held_type = visit.p ? judge.walk().injected_p : arithmetic.p_type;
    const auto as_held = [&](const Bounded& y) {
      return held_type == ElementType::f32 ? y : reference::rounded(y, held_type);
    };
    if (visit.p) {
      holds.weights[0] = holds.weights[0] && all_hold(*visit.p, as_held(p));
      holds.weights[1] = holds.weights[1] && all_hold(*visit.p, as_held(early));
    }

    if (visit.o && o_prev) {
      const auto in_product = [&](const Bounded& y) {
        return arithmetic.p_type == ElementType::f32 ? y : reference::rounded(y, arithmetic.p_type);
      };
      const auto of_held = [&](const Array& y) {
        return Bounded::exact(arithmetic.p_type == ElementType::f32
                                  ? y
                                  : reference::round_values(y, arithmetic.p_type));
      };
      const Bounded own_alpha = visit.alpha ? Bounded::exact(*visit.alpha) : alpha;
      const Bounded rescale =
          divided({own_alpha.value * l_prev,
                   own_alpha.error * l_prev + own_alpha.value * l_prev * (4 * unit)});
      const Bounded plain = visit.p ? of_held(*visit.p) : in_product(p);
      const Bounded by_l = visit.p ? divided(of_held(*visit.p)) : divided(in_product(p));
      const Bounded weights[] = {plain, by_l, visit.p ? of_held(*visit.p) : in_product(early)};
      for (int i = 0; i < 3; ++i) {
        if (!holds.outputs[i]) continue;
        Bounded want = reference::pv(weights[i], i == 0 ? own_alpha : rescale, visit.v,
                                     Bounded::exact(*o_prev), arithmetic);
        if (i == 1) want.error += want.value.abs() * (4 * unit);
        holds.outputs[i] = all_hold(*visit.o, want);
      }
      if (holds.outputs[3]) {
        Bounded lifted = plain;
        for (Index row = 0; row < rows; ++row) {
          if (first_m(row) == -reference::infinity) first_m(row) = m(row);
          const auto lift = weight(m(row) * maximum, 0, first_m(row) * maximum, factor, error);
          const bool seen = m(row) != -reference::infinity;
          for (Index key = 0; key < lifted.value.cols(); ++key) {
            const double value = lifted.value(row, key);
            lifted.error(row, key) =
                seen ? lifted.error(row, key) * lift.value +
                           std::abs(value) * (lift.error + 4 * unit * lift.value)
                     : 0;
            lifted.value(row, key) = seen ? value * lift.value : 0;
          }
        }
        const Bounded want = reference::pv(in_product(lifted), Bounded::exact(Array::Ones(rows, 1)),
                                           visit.v, Bounded::exact(*o_prev), arithmetic);
        holds.outputs[3] = all_hold(*visit.o, want);
      }
    }
    o_prev = visit.o;
    m_prev = m;
    l_prev = sum;
  }
}

std::optional<Recurrence::Partials> partials_held(const Judge& judge) {
  using Partials = Recurrence::Partials;
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

#include <cmath>
#include <optional>

#include "debug/judge/compare.h"
#include "debug/judge/recurrence_parts.h"
#include "debug/judge/recurrence_rules.h"
#include "reference/elementary.h"
#include "reference/stage_errors.h"

namespace lanescope {
namespace {

using reference::Array;
using reference::Bounded;
using reference::Index;
using reference::unit;

/// 2^(x − shift), x wrong by `error`, both as a kernel holds them.
reference::stage_errors::Number weight(double x, double error, double shift, bool converts,
                                       double ex2_error) {
  const double held = std::isfinite(shift) ? shift : 0;
  auto p = reference::stage_errors::ex2(
      x - held, error + conversion(converts, held) + conversion(converts, x), 0);
  p.error += ex2_error * p.value;
  return p;
}

/// The scores of a visit in base 2 and how far rounding may have them off. [br, bc]
Bounded scores_in_base_2(const Visit& visit, double factor) {
  Bounded x{*visit.s * factor, Array::Zero(visit.s->rows(), visit.s->cols())};
  for (Index i = 0; i < x.value.size(); ++i) x.error(i) = conversion(factor != 1, x.value(i));
  return x;
}

/// Goes through visits in their order, m of each as it is held, and clears of `holds` what alpha,
/// p, l and o then are not.
class RestCheck {
 public:
  /// As rest_holds; all of them outlive the object.
  RestCheck(const Judge& judge, const std::vector<Visit>& visits, double scores, double maximum,
            double error, RestHolds& holds)
      : judge_(judge),
        arithmetic_(judge.walk().arithmetic),
        scores_(scores),
        maximum_(maximum),
        converts_(scores != 1 || maximum != 1),
        ex2_error_(error),
        holds_(holds),
        rows_(visits.front().m->rows()),
        m_prev_(rows_, 1, start_of(visits)),
        l_prev_(rows_, 1),
        o_prev_(Array::Zero(rows_, judge.dump().info.head_dim)),
        first_m_(rows_, 1, -reference::infinity) {}

  void take(const Visit& visit) {
    weigh(visit);
    check_sums(visit);
    check_weights(visit);
    if (visit.o && o_prev_) check_outputs(visit);
    o_prev_ = visit.o;
    m_prev_ = *visit.m;
    l_prev_ = sum_;
  }

 private:
  /// alpha_ and p_ of the visit, [rows, 1] and [rows, keys].
  void weigh(const Visit& visit) {
    const Bounded x = scores_in_base_2(visit, scores_);
    alpha_ = Bounded::exact(Array::Zero(rows_, 1));
    p_ = Bounded::exact(Array::Zero(rows_, x.value.cols()));
    for (Index row = 0; row < rows_; ++row) {
      const double top = (*visit.m)(row)*maximum_, from = m_prev_(row) * maximum_;
      const auto a = weight(from, 0, top, converts_, ex2_error_);
      const bool nothing_yet = l_prev_(row) == 0;  // alpha multiplies zeros
      alpha_.value(row) = nothing_yet ? 0.5 : a.value;
      alpha_.error(row) = nothing_yet ? 0.5 : a.error;
      holds_.first_alpha =
          holds_.first_alpha || (nothing_yet && visit.alpha && top != -reference::infinity &&
                                 !compare((*visit.alpha)(row), a.value, a.error).holds);
      for (Index key = 0; key < x.value.cols(); ++key) {
        const auto one = weight(x.value(row, key), x.error(row, key), top, converts_, ex2_error_);
        p_.value(row, key) = one.value;
        p_.error(row, key) = one.error;
      }
    }
  }

  /// l; leaves the sum by which the tile may be divided, as held where l is traced.
  void check_sums(const Visit& visit) {
    const Array rescaled = l_prev_ * visit.alpha.value_or(alpha_.value);
    const double rounding = reference::gamma(p_.value.cols() + 64);
    Bounded l{rescaled + p_.value.row_sums(), Array()};
    l.error = p_.error.row_sums() + rounding * l.value;
    if (!visit.alpha) l.error += l_prev_ * alpha_.error;
    if (visit.l) {
      holds_.sums[0] = holds_.sums[0] && visit.lanes_agree && all_hold(*visit.l, l);
      holds_.sums[1] = holds_.sums[1] && all_hold(visit.lanes_of_l, l);
      const bool is_rounded = visit.p && judge_.slots(SiteId::p)->site().type != ElementType::f32;
      if (!is_rounded) holds_.sums[2] = false;
      if (holds_.sums[2]) {
        Bounded of_held{rescaled + visit.p->row_sums(), Array()};
        of_held.error = rounding * of_held.value;
        holds_.sums[2] = visit.lanes_agree && all_hold(*visit.l, of_held);
      }
    }
    const bool in_every_lane = holds_.sums[0] || holds_.sums[2];
    sum_ = !visit.l ? l.value : in_every_lane ? *visit.l : visit.lanes_of_l;
    sum_error_ = visit.l ? Array::Zero(rows_, 1) : l.error;
  }

  /// alpha and p.
  void check_weights(const Visit& visit) {
    if (visit.alpha && !all_hold(*visit.alpha, alpha_)) {
      holds_.weights[0] = holds_.weights[1] = false;
    }
    if (!visit.p) return;
    const auto as_held = [&](const Bounded& y) { return rounded(y, judge_.walk().injected_p); };
    holds_.weights[0] = holds_.weights[0] && all_hold(*visit.p, as_held(p_));
    holds_.weights[1] = holds_.weights[1] && all_hold(*visit.p, as_held(divided(p_)));
  }

  void check_outputs(const Visit& visit) {
    const ElementType p_type = arithmetic_.p_type;
    const auto of_held = [&](const Array& y) {
      return Bounded::exact(p_type == ElementType::f32 ? y : reference::round_values(y, p_type));
    };
    const Bounded alpha = visit.alpha ? Bounded::exact(*visit.alpha) : alpha_;
    const Bounded plain = visit.p ? of_held(*visit.p) : rounded(p_, p_type);
    const Bounded rescale = divided(
        {alpha.value * l_prev_, alpha.error * l_prev_ + alpha.value * l_prev_ * (4 * unit)});
    const Bounded weights[] = {plain, divided(plain),
                               visit.p ? plain : rounded(divided(p_), p_type)};
    for (int i = 0; i < 3; ++i) {
      if (!holds_.outputs[i]) continue;
      Bounded want = product(weights[i], i == 0 ? alpha : rescale, visit);
      if (i == 1) want.error += want.value.abs() * (4 * unit);
      holds_.outputs[i] = all_hold(*visit.o, want);
    }
    if (holds_.outputs[3]) {
      const Bounded one = Bounded::exact(Array::Ones(rows_, 1));
      holds_.outputs[3] =
          all_hold(*visit.o, product(rounded(lifted(plain, visit), p_type), one, visit));
    }
  }

  /// Weights relative to the first maximum of their row, made of `p`, those relative to m.
  Bounded lifted(Bounded p, const Visit& visit) {
    for (Index row = 0; row < rows_; ++row) {
      const double m = (*visit.m)(row);
      double& first = first_m_(row);
      if (first == -reference::infinity) first = m;
      const auto lift = weight(m * maximum_, 0, first * maximum_, converts_, ex2_error_);
      const bool seen = m != -reference::infinity;
      for (Index key = 0; key < p.value.cols(); ++key) {
        const double value = p.value(row, key);
        p.error(row, key) = seen ? p.error(row, key) * lift.value +
                                       std::abs(value) * (lift.error + 4 * unit * lift.value)
                                 : 0;
        p.value(row, key) = seen ? value * lift.value : 0;
      }
    }
    return p;
  }

  Bounded product(const Bounded& weights, const Bounded& alpha, const Visit& visit) const {
    return reference::pv(weights, alpha, visit.v, Bounded::exact(*o_prev_), arithmetic_);
  }
  /// Divided by l of the tile.
  Bounded divided(const Bounded& y) const {
    const Array inverse = sum_.map([](double l) { return l == 0 ? 0 : 1 / l; });
    return {y.value * inverse,
            (y.error + y.value.abs() * (sum_error_ * inverse + 4 * unit)) * inverse};
  }
  static Bounded rounded(const Bounded& y, ElementType type) {
    return type == ElementType::f32 ? y : reference::rounded(y, type);
  }

  const Judge& judge_;
  const reference::Arithmetic& arithmetic_;
  double scores_, maximum_;  ///< what s and m are multiplied by to be in base 2
  bool converts_;            ///< any of them is held in another unit
  double ex2_error_;
  RestHolds& holds_;
  Index rows_;
  Array m_prev_, l_prev_;
  std::optional<Array> o_prev_;  ///< nothing: the visit before does not show it
  Array first_m_;                ///< of each row that has seen a key, the first; else -infinity
  Bounded alpha_, p_;            ///< of the visit at hand, as they should be
  Array sum_, sum_error_;        ///< l of it
};

}  // namespace

void rest_holds(const Judge& judge, const std::vector<Visit>& visits, double scores, double maximum,
                double error, RestHolds& holds) {
  RestCheck check(judge, visits, scores, maximum, error, holds);
  for (const Visit& visit : visits) check.take(visit);
}

}  // namespace lanescope

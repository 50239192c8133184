#pragma once

#include <cmath>
#include <vector>

#include "reference/elementary.h"
#include "reference/stages.h"

// What the bounds of the stages (stages.h) are made of: how far each operation of a kernel may be
// off. Of sources alone, not of headers.

namespace lanescope::reference::stage_errors {

/// Largest relative error of ex2.approx.ftz.f32, and absolute (in (0.5, 2)) and relative (outside)
/// one of lg2.approx.ftz.f32. Source: PTX ISA, ex2 and lg2.
inline constexpr double ex2_error = 0x1p-22, lg2_error = 0x1p-22;

/// Results below 2^-126 may be flushed to zero: once in ex2 (twice that under a common shift), and
/// in each of up to 2^8 steps of a dot product.
inline constexpr double ex2_flush = 0x1p-125, dot_flush = 0x1p-118;

/// Sums from here on are rounded to infinity.
inline constexpr double f32_overflow = 0x1.ffffffp127;

/// Scores that the softmax multiplies are wrong by u·|m| in the exponent of p, though not in m.
/// From here on what p, and with it l, holds may pass the range of fp32, or be zero in a whole row.
inline constexpr double largest_residue = 100;

/// Of o / l: a division, by div.full.f32 of 2 units in the last place (PTX ISA, div), and a
/// multiplication. Of what is stored in 16 bits both count as rounded to nearest: their own
/// rounding is far above.
inline double quotient_error(const Arithmetic& arithmetic) {
  return arithmetic.operands == ElementType::f32 ? 0x1p-22 + unit : 2 * unit;
}

/// What softmaxes of other forms round more (Arithmetic::any_softmax), relatively. A weight may be
/// the product of two exponentials, of its score relative to the tile's maximum and of that
/// relative to the row's (Dao 2022, FlashAttention, algorithm 1): ex2's error and the product's. O
/// may be divided by l in every tile, and multiplied with it in the next: a quotient, and a product
/// more.
inline constexpr double more_of_weight = 0x1p-22 + unit, more_of_sum = 6 * unit;

struct Number {
  double value, error;
};

/// `x` with errors as Bounded has them: those that grew too large say so.
inline Bounded settled(Bounded x) {
  for (Index i = 0; i < x.value.size(); ++i) {
    double& error = x.error.data()[i];
    if (!std::isfinite(x.value.data()[i])) {
      error = 0;
    } else if (!(error <= any_number)) {
      error = error < anything ? any_number : anything;
    }
  }
  return x;
}

/// What fp32 makes of sums whose terms have the magnitude `terms`: infinity where all terms have
/// one sign and the sum is too large, in whatever order; anything where the order decides whether
/// infinities come up on the way, and of which sign.
inline void overflow(Bounded& sum, const Array& terms, double relative) {
  if ((terms < f32_overflow * (1 - relative)).all()) return;
  for (Index i = 0; i < sum.value.size(); ++i) {
    double& value = sum.value(i);
    if (!std::isfinite(value) || terms(i) * (1 + relative) < f32_overflow) continue;
    const bool one_sign = std::abs(value) >= terms(i) * (1 - 0x1p-40);
    if (one_sign && terms(i) * (1 - relative) >= f32_overflow) {
      value = std::copysign(infinity, value);
      sum.error(i) = 0;
    } else {
      sum.error(i) = anything;
    }
  }
}

/// 2^(x + e) − 2^x for e >= 0, where value = 2^x; at most 5 % more for e < 0.1, without
/// cancellation. 2^e − 1 <= e·ln2·(1 + e) for e <= 1.
inline double spread(double x, double value, double e) {
  return e <= 1 ? value * e * ln_2 * (1 + e) : power_of_2(x + e) - value;
}

/// ex2 of a difference of two held numbers. `anchored`: error of x without the common shift,
/// `held`: with it. The subtraction is rounded: u·|x as held|.
inline Number ex2(double x, double anchored, double held) {
  if (x == -infinity) return {0, 0};
  const double value = power_of_2(x);
  const double widened = spread(x, value, anchored + unit * (std::abs(x) + held));
  return {value, std::fmin(widened + ex2_error * (value + widened) + ex2_flush, any_number)};
}

/// s · factor, not rounded.
inline Bounded in_base_2(const Bounded& s, const Factor& factor) {
  if (factor.none()) return s;
  const Mask finite = s.value.is_finite();
  return {s.value * factor.value,
          finite.select(factor.value * s.error + factor.error * (s.value.abs() + s.error), 0)};
}

/// s · factor, rounded to fp32.
inline Bounded rounded_in_base_2(const Bounded& s, const Factor& factor) {
  Bounded x = in_base_2(s, factor);
  if (factor.none()) return x;
  x.error += x.value.is_finite().select(unit * (x.value.abs() + x.error), 0);
  overflow(x, x.value.abs(), unit);
  return x;
}

/// By what an exponent in base 2 may be off because a number in it, `value` in base 2, is held in
/// another unit: the factor, the product with it, and a difference and its product before that are
/// rounded.
inline double conversion(bool converts, double value) {
  return converts && std::isfinite(value) ? 4 * unit * std::abs(value) : 0;
}

/// By how much the logarithm of l may be off where each of `tiles` rescales it by what should be 1,
/// made of a maximum `m` that is rounded (Arithmetic::any_maximum); both in one base.
inline double rescaled_by_one(std::int64_t tiles, double m) {
  return std::isfinite(m) ? static_cast<double>(tiles) * unit * std::abs(m) : 0;
}

/// 2^(m_from − m_to), the weight of what refers to m_from among what refers to m_to, anchored.
inline Number weight(const Bounded& m_from, const Bounded& m_to, Index row, bool converts = false) {
  const double top = m_to.value(row), from = m_from.value(row);
  return ex2(from - (top == -infinity ? 0 : top),
             conversion(converts, from) + conversion(converts, top),
             m_from.error(row) + m_to.error(row));
}

/// max(m_prev, max s), exact in fp32: wrong by no more than its operands.
inline Bounded row_maximum(const Bounded& s, const Bounded& m_prev) {
  Array top = m_prev.value;
  Array high = m_prev.value + m_prev.error, low = m_prev.value - m_prev.error;
  for (Index key = 0; key < s.value.cols(); ++key) {
    for (Index row = 0; row < s.value.rows(); ++row) {
      const double value = s.value(row, key), error = s.error(row, key);
      top(row) = std::fmax(top(row), value);
      high(row) = std::fmax(high(row), value + error);
      low(row) = std::fmax(low(row), value - error);
    }
  }
  return {top, top.is_inf().select(0, (high - top).max(top - low))};
}

/// Whether a row's maximum follows: for sure, for sure not, or errors leave it open, when `nominal`
/// is what it does without them.
struct Rises {
  bool nominal, open;
};

/// Where a score is more than `above` over m_prev. A kernel compares with m_prev + above, rounded:
/// u·|m_prev + above|.
inline Rises rises_by_score(int above, const Bounded& top, const Bounded& m_prev, Index row) {
  const double high = top.value(row), low = m_prev.value(row), limit = low + above;
  // The maximum is m_prev itself, or both are the same infinity: nothing rises.
  const double over = high > low ? high - limit : -above;
  const double error = top.error(row) + m_prev.error(row) + unit * std::abs(limit);
  return {over > 0, std::isfinite(over) && std::abs(over) <= error};
}

/// Where a sum of 2^(s − m_prev) is over 2^above (RescaleRule::by_sums), of s in base 2. It is
/// added up in any order.
inline Rises rises_by_sums(int above, const Bounded& s, const Bounded& m_prev, Index row) {
  const double m = m_prev.value(row), m_error = m_prev.error(row);
  if (m == -infinity) return {true, false};
  const double keys = static_cast<double>(s.value.cols());
  const double far_below = m - m_error + above - std::log2(2 * keys);
  bool is_far_below = true;  // then all of them add up to less; a NaN is not
  for (Index key = 0; key < s.value.cols(); ++key) {
    is_far_below = is_far_below && s.value(row, key) + s.error(row, key) <= far_below;
  }
  if (is_far_below) return {false, false};
  double sum[4] = {}, off[4] = {};
  for (Index key = 0; key < s.value.cols(); ++key) {
    const double error = s.error(row, key) + m_error;
    const Number p = ex2(s.value(row, key) - m, error, error);
    sum[key / 2 % 4] += p.value;
    off[key / 2 % 4] += p.error;
  }
  const double limit = power_of_2(above), rounding = gamma(s.value.cols());
  Rises rises{false, false};
  for (int part = 0; part < 4; ++part) {
    if (!(sum[part] <= limit)) rises.nominal = true;
    const double error = off[part] + rounding * (sum[part] + off[part]);
    if (!(sum[part] - error <= limit)) return {true, false};
    if (sum[part] + error > limit) rises.open = true;
  }
  return rises;
}

/// The maximum behind a tile, and the rows in which it is the one before for sure: alpha is 1
/// there, if both are infinite too.
struct Followed {
  Bounded m;
  std::vector<bool> stays;
};

/// `top`, the maximum up to a tile of scores s in base 2, where the rule says that it follows, else
/// m_prev. As far as errors leave that open, it is what the kernel holds, or either.
inline Followed followed(const Rise& rise, const Bounded& s, const Bounded& top,
                         const Bounded& m_prev) {
  Followed all{top, std::vector<bool>(static_cast<std::size_t>(top.value.rows()))};
  if (rise.rule.above == 0) return all;
  Bounded& m = all.m;
  for (Index row = 0; row < m.value.rows(); ++row) {
    const double high = top.value(row), low = m_prev.value(row);
    Rises rises = rise.rule.by_sums ? rises_by_sums(rise.rule.above, s, m_prev, row)
                                    : rises_by_score(rise.rule.above, top, m_prev, row);
    if (rises.open) {
      if (!rise.held) {
        m.value(row) = rises.nominal ? high : low;
        m.error(row) = high - low + top.error(row) + m_prev.error(row);
        continue;
      }
      const double held = (*rise.held)(row);
      rises.nominal = std::abs(held - high) < std::abs(held - low);
    }
    if (rises.nominal) continue;
    m.value(row) = low;
    m.error(row) = m_prev.error(row);
    all.stays[static_cast<std::size_t>(row)] = true;
  }
  return all;
}

}  // namespace lanescope::reference::stage_errors

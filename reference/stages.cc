#include "reference/stages.h"

#include <cmath>

#include "reference/array_algebra.h"
#include "reference/elementary.h"

namespace lanescope::reference {
namespace {

/// Largest relative error of ex2.approx.ftz.f32, and absolute (in (0.5, 2)) and relative (outside)
/// one of lg2.approx.ftz.f32. Source: PTX ISA, ex2 and lg2.
constexpr double ex2_error = 0x1p-22, lg2_error = 0x1p-22;

/// Results below 2^-126 may be flushed to zero: once in ex2 (twice that under a common shift), and
/// in each of up to 2^8 steps of a dot product.
constexpr double ex2_flush = 0x1p-125, dot_flush = 0x1p-118;

/// Sums from here on are rounded to infinity.
constexpr double f32_overflow = 0x1.ffffffp127;

/// Scores that the softmax multiplies are wrong by u·|m| in the exponent of p, though not in m.
/// From here on what p, and with it l, holds may pass the range of fp32, or be zero in a whole row.
constexpr double largest_residue = 100;

struct Number {
  double value, error;
};

/// `x` with errors as Bounded has them: those that grew too large say so.
Bounded settled(Bounded x) {
  x.error = x.value.binaryExpr(x.error, [](double value, double error) {
    if (!std::isfinite(value)) return 0.0;
    if (error <= any_number) return error;
    return error < anything ? any_number : anything;
  });
  return x;
}

/// What fp32 makes of sums whose terms have the magnitude `terms`: infinity where all terms have
/// one sign and the sum is too large, in whatever order; anything where the order decides whether
/// infinities come up on the way, and of which sign.
void overflow(Bounded& sum, const Array& terms, double relative) {
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
double spread(double x, double value, double e) {
  return e <= 1 ? value * e * ln_2 * (1 + e) : power_of_2(x + e) - value;
}

/// ex2 of a difference of two held numbers. `anchored`: error of x without the common shift,
/// `held`: with it. The subtraction is rounded: u·|x as held|.
Number ex2(double x, double anchored, double held) {
  if (x == -infinity) return {0, 0};
  const double value = power_of_2(x);
  const double widened = spread(x, value, anchored + unit * (std::abs(x) + held));
  return {value, std::fmin(widened + ex2_error * (value + widened) + ex2_flush, any_number)};
}

/// s · factor, not rounded.
Bounded in_base_2(const Bounded& s, const Factor& factor) {
  if (factor.none()) return s;
  const auto finite = s.value.isFinite();
  return {s.value * factor.value,
          finite.select(factor.value * s.error + factor.error * (s.value.abs() + s.error), 0.0)};
}

/// s · factor, rounded to fp32.
Bounded rounded_in_base_2(const Bounded& s, const Factor& factor) {
  Bounded x = in_base_2(s, factor);
  if (factor.none()) return x;
  x.error += x.value.isFinite().select(unit * (x.value.abs() + x.error), 0.0);
  overflow(x, x.value.abs(), unit);
  return x;
}

/// 2^(m_from − m_to), the weight of what refers to m_from among what refers to m_to, anchored.
Number weight(const Bounded& m_from, const Bounded& m_to, Index row) {
  const double top = m_to.value(row);
  return ex2(m_from.value(row) - (top == -infinity ? 0 : top), 0,
             m_from.error(row) + m_to.error(row));
}

/// max(m_prev, max s), exact in fp32: wrong by no more than its operands.
Bounded row_maximum(const Bounded& s, const Bounded& m_prev) {
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
  return {top, top.isInf().select(0.0, (high - top).max(top - low))};
}

}  // namespace

namespace {

/// Σ magnitude(q)·magnitude(k), [rows, keys]: T of the dot products. A matrix unit aligns subnormal
/// numbers as if they were normal ones, which costs no bit where all bits of all products lie among
/// those that it keeps: T is then that of the numbers themselves.
Array magnitudes(const Array& q, const Array& k, const Arithmetic& arithmetic) {
  const Accumulation& products = arithmetic.products;
  const Array q_size = products.magnitude(q, arithmetic.operands);
  const Array k_size = products.magnitude(k, arithmetic.operands);
  const Array terms = q_size.matrix() * k_size.matrix().transpose();
  if (terms.size() == 0) return terms;
  const Array q_abs = q.abs(), k_abs = k.abs();
  if ((q_size == q_abs).all() && (k_size == k_abs).all()) return terms;
  const Format format = format_of(arithmetic.operands);
  const double finest = std::ldexp(1.0, 2 * (format.min_exponent - format.fraction_bits));
  const Array true_terms = q_abs.matrix() * k_abs.matrix().transpose();
  const double largest = std::fmax(q_size.maxCoeff() * k_size.maxCoeff(), true_terms.maxCoeff());
  return std::ldexp(largest, -products.fraction_bits) <= finest ? true_terms : terms;
}

}  // namespace

// The dot product is wrong by at most f·T (Accumulation), the factor by its own error, and their
// product is rounded to fp32.
Bounded qk(const Array& q, const Array& k, const Visible& visible, const Factor& factor,
           const Arithmetic& arithmetic) {
  const Accumulation& products = arithmetic.products;
  const double f = products.relative_error(q.cols());
  const Array dot = q.matrix() * k.matrix().transpose();
  const Array terms = magnitudes(q, k, arithmetic);
  Bounded product{dot, f * terms};
  overflow(product, terms, f);
  const double relative = factor.none() ? 0 : unit * factor.value + factor.error;
  const Array magnitude = product.value.array().abs() + product.error.array();
  Bounded s{factor.value * product.value,
            factor.value * product.error + relative * magnitude + dot_flush};
  if (factor.value > 1) overflow(s, s.value.abs(), unit);
  s.error = (product.error.array() >= anything).select(anything, s.error.array());
  for (Index row = 0; row < s.value.rows(); ++row) {
    const Index masked = s.value.cols() - visible[static_cast<std::size_t>(row)];
    s.value.row(row).tail(masked).setConstant(-infinity);
    s.error.row(row).tail(masked).setZero();
  }
  return settled(s);
}

// l: n additions, a multiplication with alpha, one more addition: gamma(n + 2) of the sum of the
// magnitudes, on top of what its operands are wrong by.
Softmax softmax(const Bounded& s, const Factor& factor, const Bounded& m_prev,
                const Bounded& l_prev, const Arithmetic& arithmetic) {
  const Index rows = s.value.rows(), keys = s.value.cols();
  const Bounded x = in_base_2(s, factor);
  Softmax out;
  out.m = row_maximum(rounded_in_base_2(s, factor), m_prev);
  out.alpha = out.l = Bounded::exact(Array::Zero(rows, 1));
  out.p = Bounded::exact(Array::Zero(rows, keys));
  // 2^(−inf − −inf) is what kernels guard against: a row without a visible key subtracts 0.
  const Array safe = (out.m.value == -infinity).select(0.0, out.m.value.array());

  for (Index row = 0; row < rows; ++row) {
    const bool empty = out.m.value(row) == -infinity;
    const Number alpha = empty ? Number{0, 1} : weight(m_prev, out.m, row);
    out.alpha.value(row) = alpha.value;
    out.alpha.error(row) = alpha.error;
  }
  for (Index key = 0; key < keys; ++key) {
    for (Index row = 0; row < rows; ++row) {
      const double error = x.error(row, key);
      const Number p = ex2(x.value(row, key) - safe(row), error, error + out.m.error(row));
      out.p.value(row, key) = p.value;
      out.p.error(row, key) = p.error;
    }
  }

  const Array rescaled = l_prev.value * out.alpha.value;
  out.l.value = rescaled + out.p.value.rowwise().sum();
  out.l.error = l_prev.error * (out.alpha.value + out.alpha.error) +
                l_prev.value.abs() * out.alpha.error + out.p.error.rowwise().sum();
  out.l.error += gamma(keys + 2) * (rescaled.abs() + out.p.value.rowwise().sum() + out.l.error);

  for (Index row = 0; row < rows; ++row) {
    const double residue =
        factor.none() ? 0 : unit * (std::abs(out.m.value(row)) + out.m.error(row));
    const bool open = m_prev.error(row) >= anything || (s.error.row(row) >= anything).any() ||
                      (std::isfinite(residue) && residue > largest_residue);
    if (open) {
      for (Bounded* x : {&out.m, &out.alpha, &out.p, &out.l}) x->error.row(row) = anything;
    } else if (l_prev.error(row) >= anything) {
      out.l.error(row) = anything;
    }
  }
  for (Bounded* x : {&out.m, &out.alpha, &out.p, &out.l}) *x = settled(*x);

  out.weights = out.p;
  if (arithmetic.p_type != ElementType::f32) {
    // Half the spacing of the subnormals is a bound on what is held; anchored it is larger.
    const Array shift =
        out.m.error.unaryExpr([](double e) { return std::fmin(power_of_2(e), any_number); });
    out.weights = rounded(out.p, arithmetic.p_type);
    const Format format = format_of(arithmetic.p_type);
    const double absolute = std::ldexp(1.0, format.min_exponent - format.fraction_bits - 1);
    out.weights.error.colwise() += (absolute * (shift - 1)).col(0);
    out.weights = settled(out.weights);
  }
  return out;
}

// Errors of the operands carry over; the rescaling is one fp32 multiplication (in gamma(2)), and
// the accumulation starts from the rescaled o_prev: f·T with T = |alpha·o_prev| + Σ |weight|·|v|.
Bounded pv(const Bounded& weights, const Bounded& alpha, const Array& v, const Bounded& o_prev,
           const Arithmetic& arithmetic) {
  const Accumulation& products = arithmetic.products;
  const double f = products.relative_error(v.rows()) + gamma(2);
  const auto by_row = [](const Array& column, const Array& x) -> Array {
    return x.colwise() * column.col(0);
  };
  Bounded o;
  o.value = by_row(alpha.value, o_prev.value);
  o.error =
      by_row(alpha.value + alpha.error, o_prev.error) + by_row(alpha.error, o_prev.value.abs());
  o.error += f * (o.value.abs() + o.error) + dot_flush;
  o.value += (weights.value.matrix() * v.matrix()).array();
  const Array v_magnitude = products.magnitude(v, arithmetic.operands);
  const Array terms = f * (products.magnitude(weights.value, arithmetic.p_type) + weights.error);
  const Array v_abs = v.abs();
  if ((v_magnitude == v_abs).all()) {
    const Array weight_error = weights.error + terms;
    o.error += (weight_error.matrix() * v_abs.matrix()).array();
  } else {  // what the weights are wrong by multiplies the numbers themselves
    o.error += (weights.error.matrix() * v_abs.matrix()).array();
    o.error += (terms.matrix() * v_magnitude.matrix()).array();
  }
  const Array rescaled = by_row(alpha.value, o_prev.value).abs();
  if (!((rescaled < f32_overflow / 4).all() &&
        (v_magnitude < f32_overflow / (4 * static_cast<double>(v.rows() + 1))).all())) {
    overflow(o, rescaled + (weights.value.matrix() * v_magnitude.matrix()).array(), f);
  }
  const auto open = (alpha.error >= anything).replicate(1, o.error.cols());
  o.error = (open || o_prev.error >= anything).select(anything, o.error.array());
  return settled(o);
}

// Weights are the alphas of partials against their maximum: what is held of the m_i beyond their
// value cancels against the anchors of o_i and l_i. Each sum is a chain of fused multiply-adds.
Partial combine(const std::vector<Partial>& partials) {
  const Bounded& first = partials.front().o;
  const Index rows = first.value.rows(), d = first.value.cols();
  Partial all{Bounded::exact(Array::Zero(rows, d)),
              Bounded::exact(Array::Constant(rows, 1, -infinity)),
              Bounded::exact(Array::Zero(rows, 1))};
  for (const Partial& part : partials) all.m = row_maximum(part.m, all.m);
  Array o_magnitude = Array::Zero(rows, d), l_magnitude = Array::Zero(rows, 1);
  const auto add = [](Bounded& sum, Array& magnitude, const Bounded& x, const Number& w,
                      Index row) {
    sum.value.row(row) += x.value.row(row) * w.value;
    magnitude.row(row) += x.value.row(row).abs() * w.value;
    sum.error.row(row) += x.error.row(row) * (w.value + w.error) + x.value.row(row).abs() * w.error;
  };
  for (const Partial& part : partials) {
    for (Index row = 0; row < rows; ++row) {
      const Number w = weight(part.m, all.m, row);
      add(all.o, o_magnitude, part.o, w, row);
      add(all.l, l_magnitude, part.l, w, row);
    }
  }
  const double rounding = gamma(static_cast<std::int64_t>(partials.size()));
  all.o.error += rounding * (o_magnitude + all.o.error) + dot_flush;
  all.l.error += rounding * (l_magnitude + all.l.error);
  for (const Partial& part : partials) {
    const Array open = (part.m.error >= anything).select(anything, Eigen::ArrayXXd::Zero(rows, 1));
    all.m.error = all.m.error.max(open);
    all.l.error =
        all.l.error.max(open).max((part.l.error >= anything).select(anything, open.array()));
    all.o.error =
        all.o.error.max(open.replicate(1, d))
            .max((part.o.error >= anything).select(anything, Eigen::ArrayXXd::Zero(rows, d)));
  }
  return {settled(all.o), settled(all.m), settled(all.l)};
}

// o_final = o·(1/l·factor): the quotient of the anchored o and l, in which the common shift
// cancels, then a division and a multiplication in fp32, the error of the factor, and the rounding
// to the type of the output. lse = (m + lg2(l))·ln2: m as held carries the shift that l lacks, so
// it cancels here too; lg2's own error, the addition, the rounded constant ln2 and the
// multiplication (3u).
Outputs epilogue(const Bounded& o, const Bounded& l, const Bounded& m, const Factor& factor,
                 const Arithmetic& arithmetic) {
  const Index rows = o.value.rows(), d = o.value.cols();
  Outputs out{Bounded::exact(Array::Zero(rows, d)), Bounded::exact(Array::Zero(rows, 1))};
  for (Index row = 0; row < rows; ++row) {
    if (l.value(row) == 0) continue;
    const double smallest = std::abs(l.value(row)) - l.error(row);
    for (Index col = 0; col < d; ++col) {
      const double quotient = o.value(row, col) / l.value(row);
      const double error = smallest > 0
                               ? (o.error(row, col) + std::abs(quotient) * l.error(row)) / smallest
                               : any_number;
      out.o_final.value(row, col) = factor.value * quotient;
      out.o_final.error(row, col) =
          factor.value * error +
          (2 * unit * factor.value + factor.error) * (std::abs(quotient) + error);
    }
  }
  out.o_final = rounded(out.o_final, arithmetic.operands);
  const auto open = (l.error >= anything || m.error >= anything).replicate(1, d);
  out.o_final.error = (open || o.error >= anything).select(anything, out.o_final.error.array());
  out.o_final = settled(out.o_final);

  for (Index row = 0; row < rows; ++row) {
    if (l.value(row) == 0) {
      out.lse.value(row) = -infinity;
      continue;
    }
    const double log2_l = natural_log(l.value(row)) * log2_e;
    const double sum = m.value(row) + log2_l;
    const double smallest = std::abs(l.value(row)) - l.error(row);
    double error = smallest > 0 ? l.error(row) / smallest * log2_e : any_number;
    error += lg2_error * std::fmax(1, std::abs(log2_l) + m.error(row) + error);
    out.lse.value(row) = sum * ln_2;
    out.lse.error(row) = ln_2 * (error + 3 * unit * (std::abs(sum) + error));
    if (l.error(row) >= anything || m.error(row) >= anything) out.lse.error(row) = anything;
  }
  out.lse = settled(out.lse);
  return out;
}

Bounded shifted(const Bounded& x, const Array& shift) {
  const Eigen::ArrayXd growth =
      shift.col(0).unaryExpr([](double e) { return std::fmin(spread(0, 1, e), any_number); });
  return settled({x.value, (x.value.abs() + x.error).colwise() * growth + x.error});
}

}  // namespace lanescope::reference

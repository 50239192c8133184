#include "reference/stages.h"

#include <cmath>

#include "reference/array_algebra.h"
#include "reference/elementary.h"
#include "reference/stage_errors.h"

namespace lanescope::reference {

using namespace stage_errors;

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

Bounded shifted(const Bounded& x, const Array& shift) {
  const Eigen::ArrayXd growth =
      shift.col(0).unaryExpr([](double e) { return std::fmin(spread(0, 1, e), any_number); });
  return settled({x.value, (x.value.abs() + x.error).colwise() * growth + x.error});
}

}  // namespace lanescope::reference

#include "reference/stages.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>
#include <vector>

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
  const Array terms = product_transposed(q_size, k_size);
  if (terms.size() == 0) return terms;
  const Array q_abs = q.abs(), k_abs = k.abs();
  if ((q_size == q_abs).all() && (k_size == k_abs).all()) return terms;
  const Format format = format_of(arithmetic.operands);
  const double finest = std::ldexp(1.0, 2 * (format.min_exponent - format.fraction_bits));
  const Array true_terms = product_transposed(q_abs, k_abs);
  const double largest = std::fmax(q_size.largest() * k_size.largest(), true_terms.largest());
  return std::ldexp(largest, -products.fraction_bits) <= finest ? true_terms : terms;
}

/// The larger one, b where a is NaN: one instruction, which std::fmax is not.
double larger(double a, double b) { return a > b ? a : b; }

/// What a matrix unit that keeps few bits rounds away of `start` + a·b, added up in groups of a's
/// columns. Of a group's terms and the sum before it, each loses less than 2^-F of the largest of
/// them, then the sum 2^-S of itself (Accumulation). The sums are held within `error` of these and
/// what was lost before; where terms cancel, that is far less than relative_error tells. A kernel
/// may take the groups in any order: the sum before one holds any of the others.
Array lost_in_groups(const Accumulation& products, const Array& start, const Array& error,
                     const Array& a, const Array& a_size, const Array& b, const Array& b_size) {
  const Index rows = a.rows(), terms = a.cols(), group = static_cast<Index>(products.group);
  const Index groups = (terms + group - 1) / group;
  const double each = static_cast<double>(std::min(group, terms) + 1);
  const double term_unit = each * std::ldexp(1.0, -products.fraction_bits);
  const double sum_unit = std::ldexp(1.0, -products.sum_bits);
  // What all groups lose makes the sums, of which each loses its share, that much larger.
  const double again = 1 / (1 - static_cast<double>(groups) * (term_unit + sum_unit));
  Array a_top = Array::Zero(rows, groups);
  for (Index k = 0; k < terms; ++k) {
    for (Index row = 0; row < rows; ++row) {
      double& top = a_top(row, k / group);
      top = larger(a_size(row, k), top);
    }
  }
  Array lost(rows, b.cols()), sums(rows, groups);
  std::vector<double> b_top(static_cast<std::size_t>(groups));
  for (Index col = 0; col < b.cols(); ++col) {
    sums = Array::Zero(rows, groups);
    std::fill(b_top.begin(), b_top.end(), 0);
    for (Index k = 0; k < terms; ++k) {
      const double factor = b(k, col);
      double& top = b_top[static_cast<std::size_t>(k / group)];
      top = larger(b_size(k, col), top);
      const double* column = a.data() + k * rows;
      double* sum = sums.data() + k / group * rows;
      for (Index row = 0; row < rows; ++row) sum[row] += column[row] * factor;
    }
    for (Index row = 0; row < rows; ++row) {
      double above = start(row, col), below = above;  // the sums of some groups lie between these
      for (Index i = 0; i < groups; ++i) {
        above += larger(sums(row, i), 0);
        below += -larger(-sums(row, i), 0);
      }
      const double off = error(row, col);
      double all = 0;
      for (Index i = 0; i < groups; ++i) {
        const double rise = larger(sums(row, i), 0), fall = -larger(-sums(row, i), 0);
        const double before = larger(above - rise, fall - below);
        const double behind = larger(above + fall, -(below + rise));
        const double largest = a_top(row, i) * b_top[static_cast<std::size_t>(i)];
        all += term_unit * larger(before + off, largest) + sum_unit * (behind + off);
      }
      lost(row, col) = all * again;
    }
  }
  return lost;
}

}  // namespace

// The dot product is wrong by at most f·T (Accumulation), the factor by its own error, and their
// product is rounded to fp32.
Bounded qk(const Array& q, const Array& k, const Visible& visible, const Factor& factor,
           const Arithmetic& arithmetic) {
  const Accumulation& products = arithmetic.products;
  const double f = products.relative_error(q.cols());
  const Array dot = product_transposed(q, k);
  const Array terms = magnitudes(q, k, arithmetic);
  Bounded product{dot, f * terms};
  if (products.keeps_few_bits()) {
    const Array q_size = products.magnitude(q, arithmetic.operands);
    const Array k_size = products.magnitude(k, arithmetic.operands);
    const Array none = Array::Zero(dot.rows(), dot.cols());
    const Array lost =
        lost_in_groups(products, none, none, q, q_size, k.transpose(), k_size.transpose());
    product.error = product.error.min(lost + gamma(2) * (dot.abs() + lost));
  }
  overflow(product, terms, f);
  const double relative = factor.none() ? 0 : unit * factor.value + factor.error;
  const Array magnitude = product.value.abs() + product.error;
  Bounded s{factor.value * product.value,
            factor.value * product.error + relative * magnitude + dot_flush};
  if (factor.value > 1) overflow(s, s.value.abs(), unit);
  s.error = (product.error >= anything).select(anything, s.error);
  for (Index row = 0; row < s.value.rows(); ++row) {
    const Index seen = visible[static_cast<std::size_t>(row)];
    s.value.fill_row(row, -infinity, seen);
    s.error.fill_row(row, 0, seen);
  }
  return settled(s);
}

// l: n additions, a multiplication with alpha, one more addition; two more each for the sums of the
// parts in which lanes may keep l, before the tile and behind it: gamma(n + 6) of the sum of the
// magnitudes, on top of what its operands are wrong by.
Softmax softmax(const Bounded& s, const Factor& factor, const Bounded& m_prev,
                const Bounded& l_prev, const Rise& rise, const Arithmetic& arithmetic,
                bool converts) {
  const Index rows = s.value.rows(), keys = s.value.cols();
  const double more = arithmetic.any_softmax ? more_of_weight : 0;
  const Bounded x = in_base_2(s, factor);
  Softmax out;
  Bounded as_held = rounded_in_base_2(s, factor);
  as_held.error += as_held.value.map([=](double y) { return conversion(converts, y); });
  const Followed maxima = followed(rise, x, row_maximum(as_held, m_prev), m_prev);
  out.m = maxima.m;
  out.alpha = out.l = Bounded::exact(Array::Zero(rows, 1));
  out.p = Bounded::exact(Array::Zero(rows, keys));
  // 2^(−inf − −inf) is what kernels guard against: a row without a visible key subtracts 0.
  const Array safe = (out.m.value == -infinity).select(0, out.m.value);

  for (Index row = 0; row < rows; ++row) {
    const bool empty = out.m.value(row) == -infinity;
    const Number alpha = empty ? Number{0, 1}
                         : maxima.stays[static_cast<std::size_t>(row)]
                             ? Number{1, 0}
                             : weight(m_prev, out.m, row, converts);
    out.alpha.value(row) = alpha.value;
    out.alpha.error(row) = alpha.error + more * alpha.value;
  }
  for (Index key = 0; key < keys; ++key) {
    for (Index row = 0; row < rows; ++row) {
      const double error = x.error(row, key) + conversion(converts, x.value(row, key)) +
                           conversion(converts, safe(row));
      const Number p = ex2(x.value(row, key) - safe(row), error, error + out.m.error(row));
      out.p.value(row, key) = p.value;
      out.p.error(row, key) = p.error + more * p.value;
    }
  }

  const Array rescaled = l_prev.value * out.alpha.value;
  out.l.value = rescaled + out.p.value.row_sums();
  out.l.error = l_prev.error * (out.alpha.value + out.alpha.error) +
                l_prev.value.abs() * out.alpha.error + out.p.error.row_sums();
  out.l.error += gamma(keys + 6) * (rescaled.abs() + out.p.value.row_sums() + out.l.error);

  for (Index row = 0; row < rows; ++row) {
    const double residue =
        factor.none() ? 0 : unit * (std::abs(out.m.value(row)) + out.m.error(row));
    const bool open = m_prev.error(row) >= anything || (s.error.row(row) >= anything).any() ||
                      (std::isfinite(residue) && residue > largest_residue);
    if (open) {
      for (Bounded* x : {&out.m, &out.alpha, &out.p, &out.l}) x->error.fill_row(row, anything);
    } else if (l_prev.error(row) >= anything) {
      out.l.error(row) = anything;
    }
  }
  for (Bounded* x : {&out.m, &out.alpha, &out.p, &out.l}) *x = settled(*x);

  out.weights = out.p;
  if (arithmetic.p_type != ElementType::f32) {
    // Half the spacing of the subnormals is a bound on what is held; anchored it is larger.
    const Array shift =
        out.m.error.map([](double e) { return std::fmin(power_of_2(e), any_number); });
    out.weights = rounded(out.p, arithmetic.p_type);
    const Format format = format_of(arithmetic.p_type);
    const double absolute = std::ldexp(1.0, format.min_exponent - format.fraction_bits - 1);
    out.weights.error += absolute * (shift - 1);
    out.weights = settled(out.weights);
  }
  return out;
}

namespace {

/// alpha·o_prev, before it is rounded. Element by element in one go: an Array per operation would
/// take most of the time of a walk whose tiles are narrow.
Bounded rescaled(const Bounded& o_prev, const Bounded& alpha) {
  const Index rows = o_prev.value.rows(), cols = o_prev.value.cols();
  Bounded o{Array(rows, cols), Array(rows, cols)};
  const double *factor = alpha.value.data(), *factor_error = alpha.error.data();
  const double *value = o_prev.value.data(), *error = o_prev.error.data();
  double *to = o.value.data(), *to_error = o.error.data();
  for (Index col = 0; col < cols; ++col) {
    for (Index row = 0; row < rows; ++row, ++value, ++error) {
      *to++ = *value * factor[row];
      *to_error++ =
          *error * (factor[row] + factor_error[row]) + std::abs(*value) * factor_error[row];
    }
  }
  return o;
}

}  // namespace

// Errors of the operands carry over; the rescaling is one fp32 multiplication (in gamma(2)), and
// the accumulation starts from the rescaled o_prev: f·T with T = |alpha·o_prev| + Σ |weight|·|v|.
Bounded pv(const Bounded& weights, const Bounded& alpha, const Array& v, const Bounded& o_prev,
           const Arithmetic& arithmetic) {
  const Accumulation& products = arithmetic.products;
  const double more = arithmetic.any_softmax ? more_of_sum : 0;
  const double f = products.relative_error(v.rows()) + gamma(2) + more;
  const Bounded start = rescaled(o_prev, alpha);
  const Array product_of_values = product(weights.value, v);
  const Array v_magnitude = products.magnitude(v, arithmetic.operands);
  const Array terms = f * (products.magnitude(weights.value, arithmetic.p_type) + weights.error);
  const Array v_abs = v.abs();
  // What the weights are wrong by multiplies the numbers themselves.
  const bool are_numbers = (v_magnitude == v_abs).all();
  const Array of_weights = product(are_numbers ? weights.error + terms : weights.error, v_abs);
  Bounded o{Array(start.value.rows(), start.value.cols()),
            Array(start.value.rows(), start.value.cols())};
  bool is_small = true;
  for (Index i = 0; i < o.value.size(); ++i) {
    const double value = start.value.data()[i], error = start.error.data()[i];
    o.value.data()[i] = value + product_of_values.data()[i];
    o.error.data()[i] = error + (f * (std::abs(value) + error) + dot_flush) + of_weights.data()[i];
    is_small = is_small && std::abs(value) < f32_overflow / 4;
  }
  if (!are_numbers) o.error += product(terms, v_magnitude);
  if (products.keeps_few_bits()) {
    const Array given = start.error + product(weights.error, v_abs) + dot_flush +
                        gamma(2) * (start.value.abs() + start.error);
    const Array lost = lost_in_groups(
        products, start.value, given, weights.value,
        products.magnitude(weights.value, arithmetic.p_type) + weights.error, v, v_magnitude);
    o.error = o.error.min(given + lost + gamma(2) * (o.value.abs() + given + lost));
  }
  if (!(is_small && (v_magnitude < f32_overflow / (4 * static_cast<double>(v.rows() + 1))).all())) {
    overflow(o, start.value.abs() + product(weights.value, v_magnitude), f);
  }
  const Index rows = o.error.rows();
  for (Index first = 0; first < o.error.size(); first += rows) {
    for (Index row = 0; row < rows; ++row) {
      const bool open =
          alpha.error.data()[row] >= anything || o_prev.error.data()[first + row] >= anything;
      if (open) o.error.data()[first + row] = anything;
    }
  }
  return settled(std::move(o));
}

Bounded shifted(const Bounded& x, const Array& shift) {
  const Array growth = shift.map([](double e) { return std::fmin(spread(0, 1, e), any_number); });
  Bounded held = x;
  const Index period = growth.cols() == 1 ? growth.rows() : growth.size();
  assert(growth.rows() == x.value.rows() && period * x.value.cols() >= x.value.size());
  for (Index first = 0; first < x.error.size(); first += period) {
    const double* value = x.value.data() + first;
    double* error = held.error.data() + first;
    for (Index i = 0; i < period; ++i) {
      error[i] = (std::abs(value[i]) + error[i]) * growth.data()[i] + error[i];
    }
  }
  return settled(std::move(held));
}

}  // namespace lanescope::reference

#include "reference/array.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "reference/eigen_matrix.h"

namespace lanescope::reference {
namespace {

auto as_array(const Array& x) {
  return Eigen::Map<const Eigen::ArrayXXd>(x.data(), x.rows(), x.cols());
}

template <class Operation>
Array& update(Array& a, const Array& b, const Operation& operation) {
  assert(a.rows() == b.rows() && (a.cols() == b.cols() || b.cols() == 1));
  double* to = a.data();
  if (a.cols() == b.cols()) {
    const double* from = b.data();
    for (Index i = 0; i < a.size(); ++i) to[i] = operation(to[i], from[i]);
  } else {
    for (Index col = 0; col < a.cols(); ++col) {
      for (Index row = 0; row < a.rows(); ++row, ++to) *to = operation(*to, b.data()[row]);
    }
  }
  return a;
}

template <class Condition>
Mask where(const Array& a, const Condition& condition) {
  Mask mask(a.rows(), a.cols());
  for (Index i = 0; i < a.size(); ++i) mask.set(i, condition(a.data()[i]));
  return mask;
}

template <class Condition>
Mask where(const Array& a, const Array& b, const Condition& condition) {
  assert(a.rows() == b.rows() && a.cols() == b.cols());
  Mask mask(a.rows(), a.cols());
  for (Index i = 0; i < a.size(); ++i) mask.set(i, condition(a.data()[i], b.data()[i]));
  return mask;
}

}  // namespace

Array Array::block(Index first_row, Index rows, Index cols) const {
  assert(first_row >= 0 && first_row + rows <= rows_ && cols <= cols_);
  Array part(rows, cols);
  for (Index col = 0; col < cols; ++col) {
    std::copy_n(data() + col * rows_ + first_row, rows, part.data() + col * rows);
  }
  return part;
}

Array Array::col(Index col) const {
  assert(col >= 0 && col < cols_);
  Array part(rows_, 1);
  std::copy_n(data() + col * rows_, rows_, part.begin());
  return part;
}

Array Array::transpose() const {
  Array result(cols_, rows_);
  for (Index col = 0; col < cols_; ++col) {
    for (Index row = 0; row < rows_; ++row) result(col, row) = (*this)(row, col);
  }
  return result;
}

void Array::fill_row(Index row, double value, Index first) {
  for (Index col = first; col < cols_; ++col) (*this)(row, col) = value;
}

void Array::set_corner(const Array& values) {
  assert(values.rows_ <= rows_ && values.cols_ <= cols_);
  for (Index col = 0; col < values.cols_; ++col) {
    std::copy_n(values.data() + col * values.rows_, values.rows_, data() + col * rows_);
  }
}

Array Array::abs() const {
  return map([](double x) { return std::abs(x); });
}
Array Array::square() const {
  return map([](double x) { return x * x; });
}
Array Array::sqrt() const {
  return map([](double x) { return std::sqrt(x); });
}
Array Array::max(const Array& other) const {
  Array result = *this;
  return std::move(update(result, other, [](double x, double y) { return x < y ? y : x; }));
}
Array Array::max(double other) const {
  return map([other](double x) { return x < other ? other : x; });
}
Array Array::min(const Array& other) const {
  Array result = *this;
  return std::move(update(result, other, [](double x, double y) { return y < x ? y : x; }));
}
Mask Array::is_finite() const {
  return where(*this, [](double x) { return std::isfinite(x); });
}
Mask Array::is_inf() const {
  return where(*this, [](double x) { return std::isinf(x); });
}

double Array::sum() const { return as_array(*this).sum(); }
double Array::largest() const { return as_array(*this).maxCoeff(); }
double Array::smallest() const { return as_array(*this).minCoeff(); }
Array Array::row_sums() const {
  return from_vector(Eigen::ArrayXd(as_array(*this).rowwise().sum()));
}
Array Array::row_maxima() const {
  return from_vector(Eigen::ArrayXd(as_array(*this).rowwise().maxCoeff()));
}
Array Array::row_minima() const {
  return from_vector(Eigen::ArrayXd(as_array(*this).rowwise().minCoeff()));
}
Array Array::column_maxima() const {
  return from_vector(Eigen::ArrayXXd(as_array(*this).colwise().maxCoeff()));
}
Array Array::column_minima() const {
  return from_vector(Eigen::ArrayXXd(as_array(*this).colwise().minCoeff()));
}

Array& Array::operator+=(const Array& other) {
  return update(*this, other, [](double x, double y) { return x + y; });
}
Array& Array::operator-=(const Array& other) {
  return update(*this, other, [](double x, double y) { return x - y; });
}
Array& Array::operator*=(const Array& other) {
  return update(*this, other, [](double x, double y) { return x * y; });
}
Array& Array::operator/=(const Array& other) {
  return update(*this, other, [](double x, double y) { return x / y; });
}
Array& Array::operator+=(double other) {
  for (double& x : *this) x += other;
  return *this;
}
Array& Array::operator*=(double factor) {
  for (double& x : *this) x *= factor;
  return *this;
}
Array& Array::operator/=(double divisor) {
  for (double& x : *this) x /= divisor;
  return *this;
}
Array operator-(double a, Array b) {
  for (double& x : b) x = a - x;
  return b;
}
Array operator/(double a, Array b) {
  for (double& x : b) x = a / x;
  return b;
}

bool Mask::all() const { return std::find(holds_.begin(), holds_.end(), 0) == holds_.end(); }
bool Mask::any() const { return std::find(holds_.begin(), holds_.end(), 1) != holds_.end(); }

Array Mask::select(double yes, const Array& no) const {
  assert(no.rows() == rows_ && no.cols() == cols_);
  Array result = no;
  for (Index i = 0; i < no.size(); ++i) {
    if ((*this)(i)) result.data()[i] = yes;
  }
  return result;
}

Array Mask::select(const Array& yes, double no) const {
  assert(yes.rows() == rows_ && yes.cols() == cols_);
  Array result = yes;
  for (Index i = 0; i < yes.size(); ++i) {
    if (!(*this)(i)) result.data()[i] = no;
  }
  return result;
}

Mask Mask::replicate(Index cols) const {
  assert(cols_ == 1);
  Mask wide(rows_, cols);
  for (Index i = 0; i < rows_ * cols; ++i) wide.set(i, (*this)(i % rows_));
  return wide;
}

Mask operator||(const Mask& a, const Mask& b) {
  assert(a.rows_ == b.rows_ && a.cols_ == b.cols_);
  Mask either = a;
  for (std::size_t i = 0; i < b.holds_.size(); ++i) either.holds_[i] |= b.holds_[i];
  return either;
}
Mask operator&&(const Mask& a, const Mask& b) {
  assert(a.rows_ == b.rows_ && a.cols_ == b.cols_);
  Mask both = a;
  for (std::size_t i = 0; i < b.holds_.size(); ++i) both.holds_[i] &= b.holds_[i];
  return both;
}

Mask operator==(const Array& a, const Array& b) {
  return where(a, b, [](double x, double y) { return x == y; });
}
Mask operator<=(const Array& a, const Array& b) {
  return where(a, b, [](double x, double y) { return x <= y; });
}
Mask operator<(const Array& a, const Array& b) {
  return where(a, b, [](double x, double y) { return x < y; });
}
Mask operator==(const Array& a, double b) {
  return where(a, [b](double x) { return x == b; });
}
Mask operator<(const Array& a, double b) {
  return where(a, [b](double x) { return x < b; });
}
Mask operator<=(const Array& a, double b) {
  return where(a, [b](double x) { return x <= b; });
}
Mask operator>=(const Array& a, double b) {
  return where(a, [b](double x) { return x >= b; });
}

Array product(const Array& a, const Array& b) {
  pin_product_order();
  Array result(a.rows(), b.cols());
  as_matrix(result).noalias() = as_matrix(a) * as_matrix(b);
  return result;
}

Array product_transposed(const Array& a, const Array& b) {
  pin_product_order();
  Array result(a.rows(), b.rows());
  as_matrix(result).noalias() = as_matrix(a) * as_matrix(b).transpose();
  return result;
}

}  // namespace lanescope::reference

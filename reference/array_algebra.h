#pragma once

#include <Eigen/Core>
#include <concepts>

#include "reference/array.h"

// Eigen's operations on Array: sums, products and functions of arrays are Eigen's expressions,
// which become an Array where one is asked for. Apart from array.h because Eigen takes long to
// compile.

namespace lanescope::reference {

inline auto Array::array() const { return Eigen::Map<const Eigen::ArrayXXd>(data(), rows_, cols_); }
inline auto Array::array() { return Eigen::Map<Eigen::ArrayXXd>(data(), rows_, cols_); }
inline auto Array::matrix() const {
  return Eigen::Map<const Eigen::MatrixXd>(data(), rows_, cols_);
}

template <class Expression>
requires requires(const Expression& expression) { expression.derived(); }
Array::Array(const Expression& expression) : Array(expression.rows(), expression.cols()) {
  if constexpr (std::derived_from<Expression, Eigen::MatrixBase<Expression>>) {
    Eigen::Map<Eigen::MatrixXd>(data(), rows_, cols_).noalias() = expression;
  } else {
    array() = expression;
  }
}

namespace algebra {

// What stands for an operand in an expression.
inline auto operand(const Array& x) { return x.array(); }
inline double operand(double x) { return x; }
template <class Expression>
const Expression& operand(const Eigen::ArrayBase<Expression>& x) {
  return x.derived();
}

}  // namespace algebra

template <class A, class B>
concept OneIsArray = std::same_as<A, Array> || std::same_as<B, Array>;

template <class A, class B>
requires OneIsArray<A, B>
auto operator+(const A& a, const B& b) { return algebra::operand(a) + algebra::operand(b); }
template <class A, class B>
requires OneIsArray<A, B>
auto operator-(const A& a, const B& b) { return algebra::operand(a) - algebra::operand(b); }
template <class A, class B>
requires OneIsArray<A, B>
auto operator*(const A& a, const B& b) { return algebra::operand(a) * algebra::operand(b); }
template <class A, class B>
requires OneIsArray<A, B>
auto operator/(const A& a, const B& b) { return algebra::operand(a) / algebra::operand(b); }
template <class A, class B>
requires OneIsArray<A, B>
auto operator==(const A& a, const B& b) { return algebra::operand(a) == algebra::operand(b); }
template <class A, class B>
requires OneIsArray<A, B>
auto operator<(const A& a, const B& b) { return algebra::operand(a) < algebra::operand(b); }
template <class A, class B>
requires OneIsArray<A, B>
auto operator<=(const A& a, const B& b) { return algebra::operand(a) <= algebra::operand(b); }
template <class A, class B>
requires OneIsArray<A, B>
auto operator>=(const A& a, const B& b) { return algebra::operand(a) >= algebra::operand(b); }

inline auto Array::row(Index row) const { return array().row(row); }
inline auto Array::row(Index row) { return array().row(row); }
inline auto Array::col(Index col) const { return array().col(col); }
inline auto Array::topRows(Index count) const { return array().topRows(count); }
inline auto Array::topRows(Index count) { return array().topRows(count); }
inline auto Array::leftCols(Index count) const { return array().leftCols(count); }
inline auto Array::leftCols(Index count) { return array().leftCols(count); }
inline auto Array::rowwise() const { return array().rowwise(); }
inline auto Array::colwise() const { return array().colwise(); }
inline auto Array::colwise() { return array().colwise(); }
inline auto Array::transpose() const { return array().transpose(); }
inline auto Array::abs() const { return array().abs(); }
inline auto Array::square() const { return array().square(); }
inline auto Array::isFinite() const { return array().isFinite(); }
inline auto Array::isInf() const { return array().isInf(); }
inline double Array::maxCoeff() const { return array().maxCoeff(); }
inline auto Array::replicate(Index rows, Index cols) const { return array().replicate(rows, cols); }
template <class Other>
auto Array::max(const Other& other) const {
  return array().max(algebra::operand(other));
}
template <class Other>
auto Array::min(const Other& other) const {
  return array().min(algebra::operand(other));
}
template <class Function>
auto Array::unaryExpr(const Function& function) const {
  return array().unaryExpr(function);
}
template <class Function>
auto Array::binaryExpr(const Array& other, const Function& function) const {
  return array().binaryExpr(other.array(), function);
}
template <class Other>
Array& Array::operator+=(const Other& other) {
  array() += algebra::operand(other);
  return *this;
}
inline Array& Array::operator*=(double factor) {
  array() *= factor;
  return *this;
}

}  // namespace lanescope::reference

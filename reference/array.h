#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

namespace lanescope::reference {

using Index = std::ptrdiff_t;

/// A matrix of doubles, column after column. Its elements are all that most sources need; the
/// functions without a body here are Eigen's, element by element, for those that include
/// reference/array_algebra.h.
class Array {
 public:
  Array() = default;
  /// All zero.
  Array(Index rows, Index cols) : Array(rows, cols, 0) {}
  Array(Index rows, Index cols, double value)
      : rows_(rows),
        cols_(cols),
        // Never none: Eigen counts on from where they begin, also for rows of no columns.
        values_(static_cast<std::size_t>(rows * cols > 0 ? rows * cols : 1), value) {}
  /// What an expression of Eigen comes to.
  template <class Expression>
  requires requires(const Expression& expression) { expression.derived(); }
  Array(const Expression& expression);

  static Array Zero(Index rows, Index cols) { return {rows, cols}; }
  static Array Ones(Index rows, Index cols) { return {rows, cols, 1}; }
  static Array Constant(Index rows, Index cols, double value) { return {rows, cols, value}; }

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  Index size() const { return rows_ * cols_; }
  const double* data() const { return values_.data(); }
  double* data() { return values_.data(); }

  double operator()(Index row, Index col) const { return (*this)(at(row, col)); }
  double& operator()(Index row, Index col) { return (*this)(at(row, col)); }
  /// Counted column after column; in a matrix of one column, its row.
  double operator()(Index index) const {
    assert(index >= 0 && index < size());
    return data()[index];
  }
  double& operator()(Index index) {
    assert(index >= 0 && index < size());
    return data()[index];
  }

  // Eigen's.
  auto array() const;
  auto array();
  auto matrix() const;
  auto row(Index row) const;
  auto row(Index row);
  auto col(Index col) const;
  auto topRows(Index count) const;
  auto topRows(Index count);
  auto leftCols(Index count) const;
  auto leftCols(Index count);
  auto rowwise() const;
  auto colwise() const;
  auto colwise();
  auto transpose() const;
  auto abs() const;
  auto square() const;
  auto isFinite() const;
  auto isInf() const;
  double maxCoeff() const;
  auto replicate(Index rows, Index cols) const;
  template <class Other>
  auto max(const Other& other) const;
  template <class Other>
  auto min(const Other& other) const;
  template <class Function>
  auto unaryExpr(const Function& function) const;
  template <class Function>
  auto binaryExpr(const Array& other, const Function& function) const;
  template <class Other>
  Array& operator+=(const Other& other);
  Array& operator*=(double factor);

 private:
  Index at(Index row, Index col) const {
    assert(row >= 0 && row < rows_ && col >= 0 && col < cols_);
    return row + col * rows_;
  }

  Index rows_ = 0, cols_ = 0;
  std::vector<double> values_;
};

}  // namespace lanescope::reference

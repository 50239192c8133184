#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace lanescope::reference {

using Index = std::ptrdiff_t;

class Mask;

/// A matrix of doubles, column after column. Operations are element by element and give arrays, not
/// expressions; in those of two arrays, the second may have one column, which then goes with every
/// column of the first. Products of matrices and sums are Eigen's; eigen_matrix.h alone includes
/// it.
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

  static Array Zero(Index rows, Index cols) { return {rows, cols}; }
  static Array Ones(Index rows, Index cols) { return {rows, cols, 1}; }
  static Array Constant(Index rows, Index cols, double value) { return {rows, cols, value}; }

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  Index size() const { return rows_ * cols_; }
  const double* data() const { return values_.data(); }
  double* data() { return values_.data(); }
  const double* begin() const { return data(); }
  const double* end() const { return data() + size(); }
  double* begin() { return data(); }
  double* end() { return data() + size(); }

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

  // Copies of parts.
  Array row(Index row) const { return block(row, 1, cols_); }
  Array col(Index col) const;
  Array top_rows(Index count) const { return block(0, count, cols_); }
  Array left_cols(Index count) const { return block(0, rows_, count); }
  Array transpose() const;

  /// Sets the elements of `row` from the column `first` on.
  void fill_row(Index row, double value, Index first = 0);
  /// Sets what lies in the top left corner.
  void set_corner(const Array& values);

  Array abs() const;
  Array square() const;
  Array sqrt() const;
  /// The larger or smaller of two; where one is NaN, this array's element.
  Array max(const Array& other) const;
  Array max(double other) const;
  Array min(const Array& other) const;
  Mask is_finite() const;
  Mask is_inf() const;

  double sum() const;
  double largest() const;       ///< of at least one element
  double smallest() const;      ///< of at least one element
  Array row_sums() const;       ///< [rows, 1]
  Array row_maxima() const;     ///< [rows, 1]
  Array row_minima() const;     ///< [rows, 1]
  Array column_maxima() const;  ///< [1, cols]
  Array column_minima() const;  ///< [1, cols]

  Array& operator+=(const Array& other);
  Array& operator-=(const Array& other);
  Array& operator*=(const Array& other);
  Array& operator/=(const Array& other);
  Array& operator+=(double other);
  Array& operator*=(double factor);
  Array& operator/=(double divisor);

  /// function(element) of each.
  template <class Function>
  Array map(const Function& function) const {
    Array result = *this;
    for (double& value : result) value = function(value);
    return result;
  }
  /// function(element, element of `other`) of each; of the same size.
  template <class Function>
  Array map(const Array& other, const Function& function) const {
    assert(rows_ == other.rows_ && cols_ == other.cols_);
    Array result = *this;
    for (Index i = 0; i < size(); ++i) result.data()[i] = function(data()[i], other.data()[i]);
    return result;
  }

 private:
  Index at(Index row, Index col) const {
    assert(row >= 0 && row < rows_ && col >= 0 && col < cols_);
    return row + col * rows_;
  }
  Array block(Index first_row, Index rows, Index cols) const;

  Index rows_ = 0, cols_ = 0;
  std::vector<double> values_;
};

inline Array operator+(Array a, const Array& b) { return std::move(a += b); }
inline Array operator-(Array a, const Array& b) { return std::move(a -= b); }
inline Array operator*(Array a, const Array& b) { return std::move(a *= b); }
inline Array operator/(Array a, const Array& b) { return std::move(a /= b); }
inline Array operator+(Array a, double b) { return std::move(a += b); }
inline Array operator-(Array a, double b) { return std::move(a += -b); }
inline Array operator*(Array a, double b) { return std::move(a *= b); }
inline Array operator/(Array a, double b) { return std::move(a /= b); }
inline Array operator+(double a, Array b) { return std::move(b += a); }
inline Array operator*(double a, Array b) { return std::move(b *= a); }
Array operator-(double a, Array b);
Array operator/(double a, Array b);
inline Array operator-(Array a) { return std::move(a *= -1); }

/// What holds of which elements.
class Mask {
 public:
  Mask(Index rows, Index cols)
      : rows_(rows), cols_(cols), holds_(static_cast<std::size_t>(rows * cols)) {}

  bool operator()(Index index) const { return holds_[static_cast<std::size_t>(index)] != 0; }
  void set(Index index, bool holds) { holds_[static_cast<std::size_t>(index)] = holds; }
  bool all() const;
  bool any() const;
  /// The elements of `yes` where it holds, of `no` elsewhere.
  Array select(double yes, const Array& no) const;
  Array select(const Array& yes, double no) const;
  /// Of an array with `cols` columns, of which each is the one that there is.
  Mask replicate(Index cols) const;

  friend Mask operator||(const Mask& a, const Mask& b);
  friend Mask operator&&(const Mask& a, const Mask& b);

 private:
  Index rows_, cols_;
  std::vector<char> holds_;
};

Mask operator==(const Array& a, const Array& b);
Mask operator<=(const Array& a, const Array& b);
Mask operator<(const Array& a, const Array& b);
Mask operator==(const Array& a, double b);
Mask operator<(const Array& a, double b);
Mask operator<=(const Array& a, double b);
Mask operator>=(const Array& a, double b);

/// a·b and a·bᵀ, matrices. The order of additions does not depend on the machine.
Array product(const Array& a, const Array& b);
Array product_transposed(const Array& a, const Array& b);

}  // namespace lanescope::reference

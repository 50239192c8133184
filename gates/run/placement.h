#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gates/run/provenance.h"

namespace lanescope {

/// A way in which the elements of a tile may lie in memory, in elements from its first one on: rows
/// and columns at a distance, and of swizzled ones groups of 16 bytes that change places within a
/// row, by the row's number.
struct ElementLayout {
  std::int64_t row_step = 0, column_step = 1;
  std::int64_t group = 0;            ///< elements that stay together; 0: it is not swizzled
  std::int64_t shift = 0, mask = 0;  ///< group g of row r lies where g ^ (r >> shift & mask) would

  std::int64_t at(std::int64_t row, std::int64_t column) const {
    if (group > 0) column ^= (row >> shift & mask) * group;
    return row * row_step + column * column_step;
  }
  bool by_rows() const { return row_step >= column_step; }
  std::string text() const;  ///< "rows 68 elements apart"
};

/// How a kernel put a tile into memory (Provenance::Placed).
class Placement {
 public:
  using Element = std::pair<std::int64_t, std::int64_t>;  ///< counted from the tile's first one
  /// By place, several where rows overlap, in the order of their rows.
  using Taken = std::multimap<std::int64_t, Element>;

  explicit Placement(const Provenance::Placed& placed);

  /// Enough of it is there to see how it lies.
  bool is_known() const {
    return rows_ >= 8 && columns_ >= 8 && bytes_ > 0 && 4 * std::ssize(at_) >= rows_ * columns_;
  }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t element_bytes() const { return bytes_; }
  /// Elements of its variable or allocation; 0: not known.
  std::int64_t room() const { return room_; }
  /// The one that the tile of the problem's numbers has in the place of (row, column).
  Element in_tile(std::int64_t row, std::int64_t column) const;
  std::optional<std::int64_t> at(const Element& element) const;
  /// Rows follow each other at one distance, and so do their columns, those of the first row in
  /// their order.
  bool is_regular() const { return is_regular_; }
  bool is_swizzled() const { return is_swizzled_; }
  /// As `other`, as far as both have the same rows and columns.
  bool lies_as(const Placement& other) const;
  bool lies_as(const ElementLayout& layout) const;
  /// Of one that is regular: but for swizzles.
  ElementLayout steps() const { return steps_; }
  /// Of one whose rows are cut into panels, as tensor copies leave wide ones: from one to the next;
  /// 0: they are not.
  std::int64_t panel_step() const;
  /// Panels without a gap.
  bool is_dense() const { return panel_step() == rows_ * steps_.row_step; }
  /// Neither swizzled, nor with elements left free between rows.
  bool is_plain() const;
  bool is_plain(const ElementLayout& layout) const;

  /// Elements by where they would lie in `layout`, or as those of `other`.
  Taken taken_as(const ElementLayout& layout) const;
  Taken taken_as(const Placement& other) const;

 private:
  void measure();
  std::int64_t row_begin(std::int64_t row) const;

  std::int64_t room_ = 0, bytes_ = 0;
  Element first_{};
  std::int64_t rows_ = 0, columns_ = 0;
  std::map<Element, std::int64_t> at_;
  ElementLayout steps_;
  bool is_regular_ = false, is_swizzled_ = false;
};

/// Layouts that kernels give a tile of such a size, those of the fewest words first.
std::vector<ElementLayout> layouts_for(const Placement& tile);

}  // namespace lanescope

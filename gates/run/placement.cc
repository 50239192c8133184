#include "gates/run/placement.h"

#include <algorithm>
#include <limits>
#include <set>

namespace lanescope {

std::string ElementLayout::text() const {
  const bool rows = by_rows();
  std::string text = std::string(rows ? "rows " : "columns ") +
                     std::to_string(rows ? row_step : column_step) + " elements apart";
  if (group > 0 && mask > 0) text += ", swizzled by row";
  return text;
}

Placement::Placement(const Provenance::Placed& placed) {
  if (placed.at.empty()) return;
  std::set<std::int64_t> rows, columns, offsets;
  for (const auto& [element, offset] : placed.at) {
    rows.insert(element.first);
    columns.insert(element.second);
    offsets.insert(offset);
  }
  first_ = {*rows.begin(), *columns.begin()};
  rows_ = std::ssize(rows);
  columns_ = std::ssize(columns);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (auto at = offsets.begin(), before = at++; at != offsets.end(); before = at++) {
    least = std::min(least, *at - *before);
  }
  const bool is_size = least == 1 || least == 2 || least == 4;
  if (!is_size) return;
  bytes_ = least;
  room_ = placed.room / bytes_;
  for (const auto& [element, offset] : placed.at) {
    at_[{element.first - first_.first, element.second - first_.second}] = offset / bytes_;
  }
  const auto begin = std::min_element(at_.begin(), at_.end(), [](const auto& a, const auto& b) {
                       return a.second < b.second;
                     })->second;
  for (auto& [element, at] : at_) at -= begin;
  if (is_known()) measure();
}

Placement::Element Placement::in_tile(std::int64_t row, std::int64_t column) const {
  const auto within = [](std::int64_t i, std::int64_t first, std::int64_t count) {
    return ((i - first) % count + count) % count;
  };
  return {within(row, first_.first, rows_), within(column, first_.second, columns_)};
}

std::optional<std::int64_t> Placement::at(const Element& element) const {
  const auto known = at_.find(element);
  return known != at_.end() ? std::optional(known->second) : std::nullopt;
}

std::int64_t Placement::row_begin(std::int64_t row) const {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (auto at = at_.lower_bound({row, 0}); at != at_.end() && at->first.first == row; ++at) {
    least = std::min(least, at->second);
  }
  return least;
}

void Placement::measure() {
  // In groups of eight, between which other tiles may lie.
  constexpr std::int64_t in_group = 8;
  is_regular_ = at({0, 0}) && at({0, 1}) && at({1, 0});
  if (!is_regular_) return;
  steps_.row_step = row_begin(1) - row_begin(0);
  steps_.column_step = *at({0, 1}) - *at({0, 0});
  for (std::int64_t row = 1; row < rows_; ++row) {
    if (row % in_group == 0) continue;
    is_regular_ = is_regular_ && row_begin(row) - row_begin(row - 1) == steps_.row_step;
  }
  std::int64_t before = -1;
  for (auto at = at_.begin(); at != at_.end(); ++at) {
    const auto& [row, column] = at->first;
    const std::int64_t within = at->second - row_begin(row);
    if (row == 0) {
      is_regular_ = is_regular_ && within > before;
      before = within;
    }
    const auto of_first = at_.find({0, column});
    if (of_first == at_.end()) continue;
    is_swizzled_ = is_swizzled_ || within != of_first->second - row_begin(0);
  }
}

bool Placement::lies_as(const Placement& other) const {
  if (bytes_ != other.bytes_ || !other.is_known()) return false;
  std::int64_t same = 0, both = 0;
  for (const auto& [element, own] : at_) {
    const auto theirs = other.at(element);
    if (!theirs) continue;
    ++both;
    same += *theirs == own;
  }
  return both >= 64 && same == both;
}

bool Placement::lies_as(const ElementLayout& layout) const {
  return std::all_of(at_.begin(), at_.end(), [&](const auto& known) {
    return layout.at(known.first.first, known.first.second) == known.second;
  });
}

std::int64_t Placement::panel_step() const {
  for (std::int64_t column = 1; column < columns_; ++column) {
    const auto before = at({0, column - 1}), here = at({0, column});
    if (!before || !here) return 0;
    if (*here - *before != steps_.column_step) return *here - *at({0, 0});
  }
  return 0;
}

bool Placement::is_plain() const { return !is_swizzled_ && is_plain(steps_); }

bool Placement::is_plain(const ElementLayout& layout) const {
  const bool swizzles = layout.group > 0 && layout.mask > 0;
  if (swizzles) return false;
  return layout.by_rows() ? layout.row_step <= columns_ : layout.column_step <= rows_;
}

Placement::Taken Placement::taken_as(const ElementLayout& layout) const {
  Taken taken;
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t column = 0; column < columns_; ++column) {
      taken.emplace(layout.at(row, column), Element(row, column));
    }
  }
  return taken;
}

Placement::Taken Placement::taken_as(const Placement& other) const {
  Taken taken;
  for (const auto& [element, at] : other.at_) taken.emplace(at, element);
  return taken;
}

std::vector<ElementLayout> layouts_for(const Placement& tile) {
  std::vector<ElementLayout> layouts;
  const ElementLayout own = tile.steps();
  const std::int64_t group = 16 / tile.element_bytes();
  // Of its rows as they are, others swizzles, or none.
  if (own.column_step == 1 && own.row_step >= 4 * group) {
    for (const std::int64_t mask : {0, 7, 3, 1}) {
      for (const std::int64_t shift : {0, 1, 2}) {
        if (mask == 0 && shift > 0) continue;
        layouts.push_back({own.row_step, 1, group, shift, mask});
      }
    }
  }
  const std::int64_t rows = tile.rows(), columns = tile.columns();
  constexpr std::int64_t room = 16;  // left free in a row
  std::vector<std::int64_t> steps{columns, rows};
  for (std::int64_t step = std::min(rows, columns) / 2; step <= 2 * std::max(rows, columns) + room;
       ++step) {
    steps.push_back(step);
  }
  for (const std::int64_t step : steps) layouts.push_back({step, 1});
  for (const std::int64_t step : steps) layouts.push_back({1, step});
  return layouts;
}

}  // namespace lanescope

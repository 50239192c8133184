#include <cmath>
#include <map>
#include <tuple>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"
#include "debug/causes/reduction.h"

namespace lanescope {
namespace {

using reference::Index;

/// The row that a register of a lane stands for.
using RowOf = std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, int>;

RowOf rows_of_lanes(const Scene& scene) {
  RowOf row_of;
  for (const Element& e : scene.elements()) {
    row_of[{e.holder.warp, e.holder.lane, e.holder.reg}] = e.row;
  }
  return row_of;
}

void keep_if_good(const Scene& scene, const std::vector<double>& values, const std::string& text,
                  Findings& findings) {
  const Fit fit = scene.fit(values);
  if (fit.decisive < 4 || fit.explained < 0.9) return;
  Finding finding{Cause::reduction_too_wide, fit.explained, fit.consistent, true};
  finding.evidence = {std::string(name_of(scene.site())) + " covers " + text};
  for (const Element& e : scene.elements()) {
    if (!e.wrong) continue;
    finding.evidence.push_back("e.g. " + example_text(scene, e));
    break;
  }
  findings.push_back(finding);
}

/// Lanes were combined that hold other rows: those whose numbers differ in the bits of a mask.
void try_lanes(const Scene& scene, const Reduction& reduction, const RowOf& row_of,
               const LaneOf& lane_of, Findings& findings) {
  // Of each row, what each of its lanes has.
  std::map<std::pair<int, std::int64_t>, double> parts;
  for (const Element& e : scene.elements()) {
    const auto& own = lane_of[static_cast<std::size_t>(e.row)];
    parts[{e.row, e.holder.lane}] = reduction.over_terms(
        e.row, [&](Index col) { return own[static_cast<std::size_t>(col)] == e.holder.lane; });
  }
  for (int mask = 1; mask < 32; ++mask) {
    std::vector<double> values;
    bool other_rows = false;
    for (const Element& e : scene.elements()) {
      double value = reduction.start(e.row);
      for (int bits = mask;; bits = (bits - 1) & mask) {
        const auto row = row_of.find({e.holder.warp, e.holder.lane ^ bits, e.holder.reg});
        if (row != row_of.end()) {
          other_rows = other_rows || row->second != e.row;
          value = reduction.with(value, parts[{row->second, e.holder.lane ^ bits}]);
          if (reduction.is_maximum()) value = std::fmax(value, reduction.start(row->second));
        }
        if (bits == 0) break;
      }
      values.push_back(value);
    }
    if (!other_rows) continue;
    keep_if_good(scene, values,
                 "lanes of other rows too: those whose number differs in the bits of " +
                     std::to_string(mask),
                 findings);
  }
}

/// What a lane holds of a row before goes into the next row of its registers.
void try_carry(const Scene& scene, const Reduction& reduction, const RowOf& row_of,
               Findings& findings) {
  for (const int times : {1, 2, 4, 8, 16, 32}) {
    std::vector<double> values;
    bool other_rows = false;
    for (const Element& e : scene.elements()) {
      double carried = reduction.is_maximum() ? -reference::infinity : 0;
      for (std::int64_t reg = 0; reg <= e.holder.reg; ++reg) {
        const auto row = row_of.find({e.holder.warp, e.holder.lane, reg});
        if (row == row_of.end()) continue;
        other_rows = other_rows || row->second != e.row;
        const double own = reduction.over_terms(row->second, [](Index) { return true; });
        carried = reduction.with(reduction.is_maximum() ? carried : times * carried, own);
      }
      values.push_back(reduction.with(reduction.start(e.row), carried));
    }
    if (!other_rows || (reduction.is_maximum() && times > 1)) continue;
    keep_if_good(scene, values,
                 "the rows before it in the lane's registers too" +
                     (times == 1 ? std::string() : ", " + std::to_string(times) + " times") +
                     ": what was reduced was not cleared from row to row",
                 findings);
  }
}

/// A part of two rows each: the columns go to the rows by another bit than that which their lane's
/// registers stand for.
void try_mixed(const Scene& scene, const Reduction& reduction, Findings& findings) {
  for (Index distance = 1; distance < scene.rows(); distance *= 2) {
    for (Index bit = 1; bit < reduction.cols(); bit *= 2) {
      for (const bool set : {true, false}) {
        // Of each row, what it has in either half of the columns.
        const auto half_of = [&](Index row, Index of_row) {
          const bool upper = ((of_row & distance) != 0) == set;
          return reduction.over_terms(row, [&](Index col) { return ((col & bit) != 0) == upper; });
        };
        std::vector<double> by_row;
        for (Index row = 0; row < scene.rows(); ++row) {
          double value = reduction.with(reduction.start(row), half_of(row, row));
          const Index other = row ^ distance;
          if (other < scene.rows()) value = reduction.with(value, half_of(other, row));
          by_row.push_back(value);
        }
        std::vector<double> values;
        for (const Element& e : scene.elements()) {
          values.push_back(by_row[static_cast<std::size_t>(e.row)]);
        }
        keep_if_good(scene, values,
                     "rows i and i xor " + std::to_string(distance) +
                         ", of each the columns whose bit " + std::to_string(bit) + " is" +
                         (set ? "" : " not") +
                         " that bit of i: registers are counted for other rows",
                     findings);
      }
    }
  }
}

}  // namespace

void find_wide_reduction(const Scene& scene, Findings& findings) {
  const Reduction reduction(scene);
  if (!reduction.possible()) return;
  const RowOf row_of = rows_of_lanes(scene);
  for (const LaneOf& lane_of : lanes_of_columns(scene, reduction.cols())) {
    try_lanes(scene, reduction, row_of, lane_of, findings);
  }
  try_carry(scene, reduction, row_of, findings);
  try_mixed(scene, reduction, findings);
}

}  // namespace lanescope

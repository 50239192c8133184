#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"
#include "debug/causes/product_operand.h"

namespace lanescope {
namespace {

using reference::Index;

/// The factor with which each column of the right operand was used, where all rows agree.
void find_counts(const Scene& scene, const ProductOperand& e, Findings& findings) {
  std::map<int, std::vector<std::int64_t>> by_count;
  Index explained = 0, telling = 0;
  for (Index col = 0; col < e.used.cols(); ++col) {
    std::map<int, int> counts;
    Index in_column = 0;
    for (Index row = 0; row < e.used.rows(); ++row) {
      const double right = e.right(row, col), noise = e.noise(row, col) + 1e-4 * std::abs(right);
      if (std::abs(right) < 10 * noise) continue;
      const double ratio = e.used(row, col) / right;
      const double whole = std::round(ratio);
      ++telling;
      ++in_column;
      if (std::abs(ratio - whole) * std::abs(right) <= noise && std::abs(whole) <= 32) {
        ++counts[static_cast<int>(whole)];
      }
    }
    for (const auto& [count, rows] : counts) {
      if (rows < 0.9 * static_cast<double>(in_column)) continue;  // what single rows show is chance
      explained += rows;
      if (count != 1) by_count[count].push_back(col);
    }
  }
  if (telling < 8 || by_count.empty() || explained < 0.98 * static_cast<double>(telling)) return;
  for (const auto& [count, cols] : by_count) {
    Finding finding{count == 0 ? Cause::contribution_missing : Cause::contribution_repeated, 1};
    finding.formula = true;  // rescaled by 0 at every step, a tile keeps its last keys alone
    finding.evidence = {e.depth + " " + list_text(cols) + " of the tile count " +
                        std::to_string(count) + " times in " + name_of(scene.site()) +
                        ", the others once"};
    findings.push_back(finding);
  }
}

/// Right numbers in the wrong place of the operand.
void find_places(const ProductOperand& e, Findings& findings) {
  constexpr std::pair<Index, Index> shapes[] = {{0, 1}, {8, 8}, {1, 8}, {8, 1}};
  for (const auto& shape : shapes) {
    const Index height = shape.first, width = shape.second;
    const Index rows = height == 0 ? e.used.rows() : height;
    if (e.used.rows() % rows != 0 || e.used.cols() % width != 0) continue;
    std::vector<std::pair<std::int64_t, std::int64_t>> map;
    std::vector<std::string> examples;
    Index groups = 0, found_groups = 0, copies = 0, whole_rows = 0, whole_columns = 0;
    std::set<std::pair<Index, Index>> places, sources;
    const auto same = [&](Index row, Index col, Index other_row, Index other_col) {
      for (Index r = 0; r < rows; ++r) {
        for (Index c = 0; c < width; ++c) {
          const double right = e.right(other_row + r, other_col + c);
          const double noise = e.noise(row + r, col + c) + 1e-4 * std::abs(right);
          if (!(std::abs(e.used(row + r, col + c) - right) <= noise)) return false;
        }
      }
      return true;
    };
    for (Index row = 0; row < e.used.rows(); row += rows) {
      for (Index col = 0; col < e.used.cols(); col += width) {
        if (same(row, col, row, col)) continue;
        ++groups;
        int matches = 0;
        std::pair<Index, Index> source;
        for (Index other_row = 0; other_row < e.right.rows(); other_row += rows) {
          for (Index other_col = 0; other_col < e.right.cols(); other_col += width) {
            if (!same(row, col, other_row, other_col)) continue;
            ++matches;
            source = {other_row, other_col};
          }
        }
        if (matches != 1) continue;
        ++found_groups;
        copies += same(source.first, source.second, source.first, source.second);
        whole_rows += source.second == col;
        whole_columns += source.first == row;
        places.emplace(row, col);
        sources.insert(source);
        map.emplace_back(col, source.second);
        if (height == 0 || examples.size() >= 3) continue;
        examples.push_back(e.outer + " " + std::to_string(row) + ", " + e.depth + " from " +
                           std::to_string(col) + " was computed with what belongs to " + e.outer +
                           " " + std::to_string(source.first) + ", " + e.depth + " from " +
                           std::to_string(source.second));
      }
    }
    if (groups < 2 || found_groups < 0.98 * static_cast<double>(groups)) continue;
    Finding finding{Cause::permuted,
                    static_cast<double>(found_groups) / static_cast<double>(groups)};
    if (height == 0 && copies == found_groups) {
      finding.cause = Cause::contribution_repeated;
      std::vector<std::int64_t> lost, twice;
      for (const auto& [place, source] : map) {
        lost.push_back(place);
        twice.push_back(source);
      }
      finding.evidence = {"in the product, " + e.depth + " " + list_text(lost) + " are those of " +
                          list_text(twice) + ", which count twice"};
    } else if (height == 0) {
      finding.evidence = {"in the product, " + e.depth +
                          " are paired wrongly: " + mapping_text(map, "number")};
    } else {
      // Some are taken twice and others not at all: they did not change places.
      const bool of_other_keys =
          whole_columns == found_groups && e.outer == "column of V" && places != sources;
      if (of_other_keys || (whole_rows == found_groups && e.outer == "row"))
        finding.cause = Cause::operand_of_other_row;
      finding.bits += free_number_bits;  // which block each is
      finding.evidence = examples;
      finding.evidence.insert(finding.evidence.begin(),
                              "the operand of the product was put together of the wrong " +
                                  std::string(height == width ? "8x8 blocks" : "chunks of 8"));
    }
    findings.push_back(finding);
    return;
  }
}

/// Of each two numbers of the depth that differ in one bit, one met the operand's rows of both, and
/// the other none: what belongs to one of them was multiplied with both.
void find_shared(const ProductOperand& e, Findings& findings) {
  if (!is_sharp(e)) return;
  for (Index bit = 1; 2 * bit <= e.used.cols(); bit *= 2) {
    Index pairs = 0, of_low = 0, of_high = 0;
    for (Index row = 0; row < e.used.rows(); ++row) {
      for (Index low = 0; low < e.used.cols(); ++low) {
        if ((low & bit) != 0 || low + bit >= e.used.cols()) continue;
        const Index high = low + bit;
        const double sum = e.right(row, low) + e.right(row, high);
        const auto is = [&](Index col, double value) {
          const double most = e.noise(row, col) + 1e-4 * std::abs(value);
          return std::abs(e.used(row, col) - value) <= most;
        };
        const bool fits_low = is(low, sum) && is(high, 0), fits_high = is(low, 0) && is(high, sum);
        const bool is_right = is(low, e.right(row, low)) && is(high, e.right(row, high));
        if (is_right && (fits_low || fits_high)) continue;  // of masked keys: it tells nothing
        ++pairs;
        of_low += fits_low;
        of_high += fits_high;
      }
    }
    if (pairs < 16 || 50 * (pairs - of_low - of_high) > pairs) continue;
    Finding finding{Cause::contribution_repeated, 1};
    finding.evidence = {"in the product, " + e.depth + " that differ by " + std::to_string(bit) +
                        " were multiplied with what belongs to one of them: to the first in " +
                        share_text(of_low, pairs) + ", to the second in " +
                        share_text(of_high, pairs)};
    findings.push_back(finding);
    return;
  }
}

/// Of each row the last numbers that are not 0, or the first, were left out: the loop over the
/// depth begins or ends beside the keys that the row sees.
void find_ends(const ProductOperand& e, Findings& findings) {
  const Index least_rows = 8;
  for (const bool last : {true, false}) {
    std::map<Index, Index> rows;  // by how many were left out
    for (Index row = 0; row < e.used.rows(); ++row) {
      std::vector<Index> seen;
      for (Index i = 0; i < e.used.cols(); ++i) {
        const Index col = last ? e.used.cols() - 1 - i : i;
        if (std::abs(e.right(row, col)) > 10 * e.noise(row, col)) seen.push_back(col);
      }
      if (seen.empty()) continue;
      const auto is = [&](Index col, double value) {
        return std::abs(e.used(row, col) - value) <= e.noise(row, col) + 1e-4 * std::abs(value);
      };
      const auto kept = std::ranges::find_if_not(seen, [&](Index col) { return is(col, 0); });
      const bool others_are_right =
          std::all_of(kept, seen.end(), [&](Index col) { return is(col, e.right(row, col)); });
      if (!others_are_right) return;
      ++rows[kept - seen.begin()];
    }
    const Index whole = rows.contains(0) ? rows[0] : 0;
    Index all = 0;
    for (const auto& [count, of_count] : rows) all += of_count;
    if (all - whole < least_rows) continue;
    Finding finding{Cause::contribution_missing, 1};
    const Index most = rows.rbegin()->first;
    const std::string number =
        rows.size() > 1 ? "(up to " + std::to_string(most) + ") " : std::to_string(most) + " ";
    if (rows.size() > 1) finding.bits += free_number_bits;  // how many of which row
    finding.evidence = {"in the product, of each " + e.outer + " the " +
                        (last ? "last " : "first ") + (most > 1 ? number : "") + "of the " +
                        e.depth + " that it sees " + (most > 1 ? "are" : "is") + " left out"};
    findings.push_back(finding);
    return;
  }
}

}  // namespace

void find_product(const Scene& scene, Findings& findings) {
  for (const ProductOperand& operand : solve_operands(scene)) {
    const std::size_t known = findings.size();
    find_counts(scene, operand, findings);
    find_places(operand, findings);
    find_misread(operand, findings);
    find_shared(operand, findings);
    if (findings.size() == known) find_ends(operand, findings);
    if (findings.size() > known) return;
  }
}

}  // namespace lanescope

#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "debug/causes/detectors.h"
#include "debug/causes/extent.h"
#include "debug/causes/phrases.h"

namespace lanescope {

/// 2^x and log2 x of each element.
inline Scene::Array exp2(const Scene::Array& x) {
  return x.map([](double y) { return std::exp2(y); });
}
inline Scene::Array log2(const Scene::Array& x) {
  return x.map([](double y) { return std::log2(y); });
}

/// What it takes to say which formula it is where that is none of a class with a name.
constexpr double other_formula_bits = 8;

/// Tries formulas on the scene and keeps those that give most of the wrong values: everywhere, or
/// in an extent of the tile, the right ones standing outside of it.
class Formulas {
 public:
  Formulas(const Scene& scene, Findings& findings) : scene_(scene), findings_(findings) {}

  /// `free_numbers`: how many the formula takes from what the kernel holds; `error`: what `value`
  /// may be off by, beyond the rounding of the site.
  void operator()(Cause cause, const std::string& text, const Scene::Array& value,
                  int free_numbers = 0, const Scene::Array& error = {}) const {
    attempt(cause, text, value, free_numbers, error, 1);
  }
  /// Of a cause that is not certain, though the formula gives all wrong values.
  void doubtful(Cause cause, const std::string& text, const Scene::Array& value) const {
    attempt(cause, text, value, 0, {}, 0.95);
  }

 private:
  void attempt(Cause cause, const std::string& text, const Scene::Array& value, int free_numbers,
               const Scene::Array& error, double share) const {
    if (value.rows() != scene_.rows()) return;
    const auto by_element = [&](const Scene::Array& x) {
      return scene_.by_element(x.cols() == 1 ? x : x.left_cols(scene_.cols()));
    };
    const std::vector<double> values = by_element(value);
    const Fit fit = error.size() == 0 ? scene_.fit(values) : scene_.fit(values, by_element(error));
    if (fit.explained < 0.5 || agrees_near_zero_alone(values) || is_off_by_ratio(values)) return;
    Finding finding{cause, fit.explained, fit.consistent, true};
    finding.bits += free_numbers * free_number_bits;
    if (cause == Cause::wrong_formula) finding.bits += other_formula_bits;
    finding.evidence = {text};
    if (finding.certain() && fit.consistent < 0.98) {
      if (const std::optional<Extent> extent = extent_of(scene_, values)) {
        finding.consistent = 1;
        finding.bits += extent_bits;
        finding.evidence[0] += "; so in " + extent->text + " alone";
      }
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Element& e = scene_.elements()[i];
      if (!e.wrong || !scene_.fits(e.row, e.col, e.got, values[i])) continue;
      finding.evidence.push_back("e.g. " + example_text(scene_, e) + "; this formula gives " +
                                 value_text(values[i]));
      break;
    }
    finding.explained *= share;
    findings_.push_back(finding);
  }

  /// Whether most of what fits does so because what is held and what the formula gives are next to
  /// nothing, beside what should be there, though they are different numbers.
  bool agrees_near_zero_alone(const std::vector<double>& values) const {
    int fitting = 0, others = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Element& e = scene_.elements()[i];
      if (!e.wrong || !std::isfinite(e.got) || !scene_.fits(e.row, e.col, e.got, values[i])) {
        continue;
      }
      const double larger = std::max(std::abs(e.got), std::abs(values[i]));
      const bool is_small = scene_.fits(e.row, e.col, larger, 0);
      ++fitting;
      others += is_small && std::abs(e.got - values[i]) > 0.1 * larger;
    }
    return 2 * others > fitting;
  }

  /// Whether the rows that a combine puts together are off by a factor each: a formula that is near
  /// one number per row is not it, for sums of single precision leave no more than the rounding of
  /// the output, which is none of a whole row.
  bool is_off_by_ratio(const std::vector<double>& values) const {
    if (scene_.first().stage != Stage::combine || !scene_.at_end()) return false;
    struct Row {
      double product = 0, square = 0;
      int count = 0;
    };
    std::map<int, Row> rows;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Element& e = scene_.elements()[i];
      if (!e.wrong || !std::isfinite(e.got) || !std::isfinite(values[i])) continue;
      Row& row = rows[e.row];
      row.product += e.got * values[i];
      row.square += values[i] * values[i];
      ++row.count;
    }
    constexpr int fewest_columns = 16;
    int off = 0, all = 0;
    for (const auto& [number, row] : rows) {
      if (row.count < fewest_columns || row.square == 0) continue;
      ++all;
      off += std::abs(row.product / row.square - 1) > 0x1p-10;
    }
    return 2 * off > all;
  }

  const Scene& scene_;
  Findings& findings_;
};

/// Scores, or maxima of them, with another factor than the one that the softmax owes them.
struct ScaledScores {
  std::string what;
  Scene::Array s;
};
std::vector<ScaledScores> wrongly_scaled(const Scene& scene);

/// The formulas near that of S, near those of the softmax, of them near those of m, and near that
/// of O.
void try_formulas_of_scores(const Scene& scene, const Formulas& fits);
void try_formulas_of_softmax(const Scene& scene, const Formulas& fits);
void try_formulas_of_maxima(const Scene& scene, const Formulas& fits, const Scene::Array& s,
                            const Scene::Array& m_prev);
/// At the first tile of a block: l or O of the rows that the same threads had before.
void try_left_over(const Scene& scene, const Formulas& fits);
void try_formulas_of_output(const Scene& scene, const Formulas& fits);

}  // namespace lanescope

// What the weights of a combine are relative to, where that is not the largest of the maxima.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/combine_parts.h"
#include "debug/causes/formulas.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = reference::Array;

using reference::infinity, reference::ln_2;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// 2^x as f32 holds it: infinite from 128 on, 0 below its subnormal numbers.
Array exp2_of_float(const Array& x) {
  return x.map([](double y) { return y >= 128 ? infinity : y < -150 ? 0 : std::exp2(y); });
}

/// Of a formula that gives NaN or infinities: whether the wrong values are none but these, and the
/// right ones others.
Fit fit_of_nan(const Scene& scene, const Array& value) {
  FitCount count;
  const std::vector<double> values = scene.by_element(value);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Element& e = scene.elements()[i];
    const bool is_number = std::isfinite(values[i]);
    count.add(e.wrong,
              e.wrong ? !is_number && !e.unwritten && std::isnan(e.got) == std::isnan(values[i])
                      : is_number);
  }
  return count.fit();
}

/// Whether the log-sum-exps of the rows are numbers where `log_sum` is none.
bool is_refuted_by_lse(const Scene& scene, const Array& log_sum) {
  const std::optional<Array> left = scene.left_lse();
  return left && log_sum.is_finite().select(nan, *left).is_finite().any();
}

/// O of numbers, which is none though the sum of its weights is one: it began with something else.
void try_uncleared(const Scene& scene, const Parts& parts, Findings& findings) {
  const Factors weight = [&](std::size_t i) { return parts.weight[i]; };
  const Array o = sum_of_parts(parts.o, weight);
  const bool made_of_numbers = std::ranges::all_of(scene.elements(), [&](const Element& e) {
    return !e.wrong || (std::isnan(e.got) && !e.unwritten && std::isfinite(o(e.row, e.col)));
  });
  const std::optional<Array> lse = scene.left_lse();
  if (!made_of_numbers || !lse || !lse->is_finite().any() ||
      std::ranges::any_of(*lse, [](double x) { return std::isnan(x); })) {
    return;
  }
  Finding finding{Cause::accumulator_not_cleared, 0.97};
  finding.evidence = {
      "the parts and their weights are numbers, so is the log-sum-exp, and O is "
      "none: its sum begins with what was in its registers before"};
  findings.push_back(finding);
}

}  // namespace

void try_other_references(const Scene& scene, const Parts& parts, Findings& findings) {
  const bool of_lse = scene.site() == SiteId::lse;
  const Array zero = 0 * parts.top;
  /// `beside`: what parts that there are none of, of m = 0, l = 0 and O = 0, weigh.
  const auto attempt = [&](Cause cause, const std::string& text, const Array& m,
                           const Array& beside) {
    const Factors weight = [&](std::size_t i) { return exp2_of_float(parts.m[i] - m); };
    const Array l = sum_of_parts(parts.l, weight) + 0 * beside;
    const Array log_sum = (m + log2(l)) * ln_2;
    if (!of_lse && is_refuted_by_lse(scene, log_sum)) return;
    const Array value = of_lse ? log_sum : sum_of_parts(parts.o, weight) / l;
    const Fit fit = fit_of_nan(scene, value);
    if (fit.explained < 0.5 || fit.consistent < 0.98) return;
    Finding finding{cause, fit.explained, fit.consistent, true};
    // Whatever gives NaN gives it to the one row that there is.
    if (scene.rows() == 1) finding.explained *= 0.9;
    finding.evidence = {text};
    findings.push_back(finding);
  };
  if (!of_lse) try_uncleared(scene, parts, findings);
  for (std::size_t split = 0; split < parts.count(); ++split) {
    attempt(Cause::overflow,
            "the weights are relative to m of split " + std::to_string(split) +
                ", not to the largest: 2^x of a split that is far above it is infinite",
            parts.m[split], zero);
  }
  attempt(Cause::clamped, "m starts at 0, not at -inf: where all splits are far below, 2^x is 0",
          parts.top.max(0), zero);
  attempt(Cause::reduction_too_wide,
          "parts that there are none of are taken in, with m = 0: where all splits are far below, "
          "2^x of that is infinite, and 0 times it NaN",
          parts.top, exp2_of_float(-parts.top));
}

}  // namespace lanescope

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "debug/judge/diff.h"
#include "reference/reach.h"

namespace lanescope {

/// How a value compares with what it should be.
struct Comparison {
  double error = 0;
  double over_bound = 0;
  bool holds = true;
};

/// Infinities and NaN must be the same; everything else within the bound, which a NaN never is, but
/// where the value need not be a number.
inline Comparison compare(double got, double want, double bound) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!std::isfinite(want)) {
    const bool same = std::isnan(want) ? std::isnan(got) : got == want;
    return same ? Comparison{} : Comparison{infinity, infinity, false};
  }
  if (bound >= reference::anything) return {};
  if (!std::isfinite(got)) return {infinity, infinity, false};
  const double error = std::abs(got - want);
  if (!(error <= bound)) return {error, bound > 0 ? error / bound : infinity, false};
  return {error, error > 0 ? error / bound : 0, true};
}

/// A value of a dump, and what it should be.
struct Compared {
  double got, want, bound;
  bool unwritten;
  bool vacuous;  ///< the bound says nothing
  bool idle;     ///< Divergence::idle
};

/// Adds one value to `report`. `where` gives its place (a Divergence without values) and is called
/// only if the value is one to remember. Where the run broke off, what it did not write fails, but
/// only what it wrote says what went wrong.
template <typename Where>
Comparison record(SiteReport& report, const Compared& value, bool broke_off, const Where& where) {
  const auto& [got, want, bound, unwritten, vacuous, idle] = value;
  Comparison outcome = compare(got, want, bound);
  if (unwritten && broke_off) {
    ++report.unwritten;
    ++report.compared;
    ++report.failed;
    return {0, 0, false};
  }
  if (unwritten) {
    outcome = {0, std::numeric_limits<double>::infinity(), false};
    ++report.unwritten;
  } else if (std::isnan(got) || (std::isinf(got) && got != want)) {
    ++report.non_finite;
  }
  ++report.compared;
  if (!outcome.holds) ++report.failed;
  if (outcome.holds && vacuous) ++report.vacuous;
  report.max_error = std::max(report.max_error, outcome.error);
  const bool first = !outcome.holds && (!report.first || (report.first->idle && !idle));
  const bool worst = !report.worst || outcome.over_bound > report.max_error_over_bound;
  if (first || worst) {
    Divergence place = where();
    place.site = report.site;
    place.stage = report.stage;
    place.judgement = report.judgement;
    place.got = got;
    place.want = want;
    place.bound = bound;
    place.unwritten = unwritten;
    place.idle = idle;
    if (first) report.first = place;
    if (worst) report.worst = place;
  }
  report.max_error_over_bound = std::max(report.max_error_over_bound, outcome.over_bound);
  return outcome;
}

/// Adds what a later block reported about the same site and judgement.
inline void merge(SiteReport& report, const SiteReport& later) {
  report.compared += later.compared;
  report.failed += later.failed;
  report.vacuous += later.vacuous;
  report.unwritten += later.unwritten;
  report.non_finite += later.non_finite;
  report.max_error = std::max(report.max_error, later.max_error);
  if (!report.first || (report.first->idle && later.first && !later.first->idle)) {
    report.first = later.first;
  }
  if (!report.worst || later.max_error_over_bound > report.max_error_over_bound) {
    report.worst = later.worst;
  }
  report.max_error_over_bound = std::max(report.max_error_over_bound, later.max_error_over_bound);
}

}  // namespace lanescope

#include <algorithm>
#include <cmath>

#include "debug/causes/detectors.h"
#include "debug/causes/formulas.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;

/// Bounds between which all values lie: what is beyond them holds them.
void find_clamp(const Scene& scene, const Formulas& fits) {
  double low = -reference::infinity, high = reference::infinity;
  for (const Element& e : scene.elements()) {
    if (!e.wrong || e.unwritten || !std::isfinite(e.got)) continue;
    if (e.want > e.got) high = std::fmin(high, e.got);
    if (e.want < e.got) low = std::fmax(low, e.got);
  }
  const bool cut_above = std::isfinite(high), cut_below = std::isfinite(low);
  if ((!cut_above && !cut_below) || low > high) return;
  const Array clamped = scene.want().map([=](double x) {
    // What is masked is not in question.
    return std::isfinite(x) ? std::fmin(std::fmax(x, low), high) : x;
  });
  // A limit holds everywhere, and leaves what lies within.
  if (scene.fit(scene.by_element(clamped)).consistent < 0.98) return;
  const auto is_within = [&](const Element& e) {
    return !e.wrong && std::isfinite(e.want) && !scene.fits(e.row, e.col, e.want, low) &&
           !scene.fits(e.row, e.col, e.want, high);
  };
  if (std::count_if(scene.elements().begin(), scene.elements().end(), is_within) < 8) return;
  fits(Cause::clamped,
       "no value is" + (cut_above ? " above " + value_text(high) : std::string()) +
           (cut_below ? (cut_above ? " or below " : " below ") + value_text(low) : std::string()) +
           ": they are clamped",
       clamped, cut_above + cut_below);
}

/// Values x that are c · tanh(x / c) instead, for some c.
void find_soft_cap(const Scene& scene, const Formulas& fits) {
  const Element* largest = nullptr;
  for (const Element& e : scene.elements()) {
    if (!e.wrong || e.unwritten || !std::isfinite(e.want) || !std::isfinite(e.got)) continue;
    if (!(std::abs(e.got) < std::abs(e.want)) || e.got * e.want <= 0) return;
    if (!largest || std::abs(e.want) > std::abs(largest->want)) largest = &e;
  }
  if (!largest) return;
  const double want = std::abs(largest->want), got = std::abs(largest->got);
  double low = got, high = want;
  const auto capped = [](double x, double cap) { return cap * std::tanh(x / cap); };
  while (capped(want, high) < got && high < 1e6 * want) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (capped(want, middle) < got ? low : high) = middle;
  }
  const double cap = (low + high) / 2;
  fits(Cause::clamped,
       "values x are softly capped: c tanh(x / c) with c = " + value_text(cap) +
           (scene.site() == SiteId::s && scene.reference().softmax_factor().none()
                ? " (in base 2; " + value_text(cap * std::log(2.0)) + " in base e)"
                : ""),
       scene.want().map([=](double x) { return std::isfinite(x) ? capped(x, cap) : x; }), 1);
}

}  // namespace

void find_limit(const Scene& scene, Findings& findings) {
  if (scene.first().stage == Stage::load || scene.wrong_count() < 4) return;
  const Formulas fits(scene, findings);
  find_clamp(scene, fits);
  if (scene.site() == SiteId::s) find_soft_cap(scene, fits);
}

}  // namespace lanescope

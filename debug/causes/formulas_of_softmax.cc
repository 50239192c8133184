// What alpha, P and l are computed as, instead of by the formulas of the online softmax.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "debug/causes/formulas.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;

using reference::infinity;
using reference::ln_2, reference::log2_e;

Array row_max(const Array& x) { return x.row_maxima(); }
Array row_sum(const Array& x) { return x.row_sums(); }
/// `x` with each row multiplied by its entry of `column`.
Array scaled(const Array& x, const Array& column) { return x * column; }
Array minus(const Array& x, const Array& column) { return x - column; }

/// How a number that is held in an integer loses its fraction.
struct Whole {
  const char* how;
  double (*of)(double);
};
constexpr Whole whole_numbers[] = {
    {"cut to", [](double x) { return std::trunc(x); }},
    {"rounded to", [](double x) { return std::nearbyint(x); }},
    {"cut down to", [](double x) { return std::floor(x); }},
};

/// The maximum in other units than those of the scores that it is subtracted from.
std::vector<ScaledScores> wrongly_scaled_maxima(const Scene& scene, const Array& m) {
  const double scale = reference::softmax_scale(scene.info().problem);
  return {{"without any factor", m * (1 / (scale * log2_e))},
          {"without the factor log2(e)", m * (1 / log2_e)},
          {"without the factor 1/sqrt(d)", m * (1 / scale)},
          {"with the factor log2(e) twice", m * log2_e},
          {"with the factor 1/sqrt(d) twice", m * scale}};
}

/// The tile in one pass: each key, or group of keys, takes the maximum as it is by then.
void try_weights_of_one_pass(const Array& s, const Array& m_prev, const Formulas& fits) {
  for (reference::Index keys = 1; keys < s.cols(); keys *= 2) {
    Array p = 0 * s;
    for (reference::Index row = 0; row < s.rows(); ++row) {
      double top = m_prev(row);
      for (reference::Index col = 0; col < s.cols(); ++col) {
        for (reference::Index i = col; col % keys == 0 && i < std::min(col + keys, s.cols()); ++i) {
          top = std::max(top, s(row, i));
        }
        p(row, col) = std::exp2(s(row, col) - (top == -infinity ? 0 : top));
      }
    }
    fits(Cause::not_rescaled,
         "p = 2^(s - the maximum of the keys up to " +
             (keys == 1 ? std::string("its own)")
                        : "the end of its group of " + std::to_string(keys) + ")") +
             ": it is not rescaled where the maximum rises behind it in the tile",
         p);
  }
}

/// What the softmax of a tile is computed from, and what comes of it.
struct SoftmaxTile {
  Array s, m_prev, m;
  Array shift = (m == -infinity).select(0, m);
  Array p = exp2(minus(s, shift)), alpha = exp2(m_prev - shift);
};

void try_factor(const Scene& scene, const Formulas& fits, const SoftmaxTile& t) {
  fits(Cause::not_rescaled, "alpha is 1: m_prev was read after m was updated, or not at all",
       Array::Ones(t.m.rows(), 1));
  fits(Cause::wrong_formula, "alpha = 2^(m - m_prev): the sign is wrong", exp2(t.m - t.m_prev));
  fits(Cause::wrong_base, "alpha = e^(m_prev - m), m is in base 2",
       exp2((t.m_prev - t.shift) * log2_e));
  fits(Cause::wrong_base, "alpha = 2^((m_prev - m) ln 2)", exp2((t.m_prev - t.shift) * ln_2));
  fits(Cause::wrong_formula, "alpha = 2^m_prev, m is not subtracted", exp2(t.m_prev));
  if (const double unit = scene.unit_of(SiteId::m); unit != 1) {
    fits(Cause::wrong_scale,
         "alpha = 2^(m_prev - m) of maxima as they are held, which are not in base 2",
         exp2((t.m_prev - t.shift) * (1 / unit)));
  }
  for (const auto& [how, whole] : whole_numbers) {
    const std::string of = std::string(how) + " a whole number";
    fits(Cause::precision_lost, "alpha = 2^(m_prev - m) with m " + of,
         exp2(t.m_prev - t.shift.map(whole)));
    fits(Cause::precision_lost, "alpha = 2^(m_prev - m) with both " + of,
         exp2(t.m_prev.map(whole) - t.shift.map(whole)));
  }
  fits(Cause::wrong_formula, "alpha = 2^(m_prev - max of this tile)",
       exp2(t.m_prev - row_max(t.s)));
  fits(Cause::wrong_formula, "alpha = m_prev - m, without the exponential", t.m_prev - t.shift);
  fits(Cause::rescaled_twice, "alpha is squared", t.alpha.square());
  // One that is 1 at every tile is 1, more than it is the old one.
  const auto old = scene.held(SiteId::alpha, scene.earlier(scene.tile()));
  if (old && !(*old == 1).all()) {
    fits(Cause::never_updated, "alpha equals alpha of the tile before", *old);
  }
}

void try_weights(const Scene& scene, const Formulas& fits, const SoftmaxTile& t) {
  const Array sum = row_sum(t.p);
  fits(Cause::stale_value, "p still holds the scores", t.s);
  for (const auto& [what, scores] : wrongly_scaled(scene)) {
    fits(Cause::wrong_scale, "p = 2^(s - m) of the scores " + what, exp2(minus(scores, t.shift)));
  }
  for (const auto& [what, maximum] : wrongly_scaled_maxima(scene, t.shift)) {
    fits(Cause::wrong_scale, "p = 2^(s - m) with m " + what, exp2(minus(t.s, maximum)));
  }
  fits(Cause::stale_operand, "p = 2^(s - m_prev): the maximum of before this tile",
       exp2(minus(t.s, (t.m_prev == -infinity).select(0, t.m_prev))));
  fits(Cause::wrong_formula, "p = 2^s: the maximum is not subtracted", exp2(t.s));
  try_weights_of_one_pass(t.s, t.m_prev, fits);
  for (const auto& [how, whole] : whole_numbers) {
    fits(Cause::precision_lost, "p = 2^(s - m) with m " + std::string(how) + " a whole number",
         exp2(minus(t.s, t.shift.map(whole))));
  }
  fits(Cause::wrong_formula, "p = 2^(s - max of this tile), not of the running maximum",
       exp2(minus(t.s, row_max(t.s))));
  fits(Cause::wrong_formula, "p = 2^(m - s): the sign is wrong", exp2(0 - minus(t.s, t.shift)));
  fits(Cause::wrong_formula, "p = s - m: the exponential is missing", minus(t.s, t.shift));
  fits(Cause::wrong_base, "p = e^(s - m), but s is in base 2", exp2(minus(t.s, t.shift) * log2_e));
  fits(Cause::wrong_base, "p = 2^((s - m) ln 2)", exp2(minus(t.s, t.shift) * ln_2));
  fits(Cause::normalised_twice, "p is divided by its row sum of this tile already",
       scaled(t.p, 1 / sum));
  if (const auto l_prev = scene.before(SiteId::l, scene.tile())) {
    fits(Cause::normalised_twice, "p is divided by the running l already",
         scaled(t.p, 1 / (t.alpha * *l_prev + sum)));
  }
  fits(Cause::rescaled_twice, "p is multiplied by alpha", scaled(t.p, t.alpha));
  if (const auto old = scene.held(SiteId::p, scene.earlier(scene.tile()))) {
    fits(Cause::never_updated, "p equals p of the tile before", *old);
  }
}

void try_row_sum(const Scene& scene, const Formulas& fits, const SoftmaxTile& t) {
  const auto l_prev = scene.before(SiteId::l, scene.tile());
  if (!l_prev) return;
  const Array sum = row_sum(t.p), rescaled = t.alpha * *l_prev;
  if (scene.earlier(scene.tile()) < 0) try_left_over(scene, fits);
  fits(Cause::never_updated, "l equals l of before this tile", *l_prev);
  fits(Cause::accumulator_lost, "l is the sum of this tile alone", sum);
  fits(Cause::not_rescaled, "l = l_prev + sum of p, not multiplied by alpha", *l_prev + sum);
  fits(Cause::rescaled_twice, "l = alpha^2 l_prev + sum of p", t.alpha * rescaled + sum);
  fits(Cause::rescaled_twice, "l = alpha (l_prev + sum of p): alpha belongs to l_prev alone",
       rescaled + t.alpha * sum);
  fits(Cause::wrong_formula, "l = l_prev + alpha * sum of p", *l_prev + t.alpha * sum);
  fits(Cause::contribution_missing, "l = alpha l_prev: the sum of p is missing", rescaled);
  for (const int times : {2, 4, 8, 16, 32}) {
    fits(Cause::contribution_repeated,
         "l = alpha l_prev + " + std::to_string(times) + " times the sum of p",
         rescaled + times * sum);
    fits(Cause::contribution_repeated,
         "alpha l_prev counts " + std::to_string(times) + " times: it is reduced with the sum",
         times * rescaled + sum);
  }
  fits(Cause::wrong_formula, "l adds the maximum of p, not the sum", rescaled + row_max(t.p));
  fits(Cause::wrong_formula, "l adds the scores, not p", rescaled + row_sum(t.s));
  // As if weights were scores still.
  for (const bool relative : {false, true}) {
    const Array powers = row_sum(exp2(relative ? minus(t.p, t.shift) : t.p));
    fits(Cause::wrong_formula, relative ? "l adds 2^(p - m), not p" : "l adds 2^p, not p",
         rescaled + powers, 0, 0x1p-12 * powers);
  }
  fits(Cause::wrong_formula, "l adds p^2, not p", rescaled + row_sum(t.p * t.p));
}

}  // namespace

void try_formulas_of_softmax(const Scene& scene, const Formulas& fits) {
  const std::int64_t tile = scene.tile();
  const auto s = scene.scores(tile);
  auto m_prev = scene.held(SiteId::m_prev, tile);
  if (!m_prev) m_prev = scene.before(SiteId::m, tile);
  if (!s || !m_prev) return;
  if (scene.site() == SiteId::m_prev || scene.site() == SiteId::m) {
    return try_formulas_of_maxima(scene, fits, *s, *m_prev);
  }
  const auto m = scene.held(SiteId::m, tile);
  if (!m) return;
  const SoftmaxTile t{*s, *m_prev, *m};
  if (scene.site() == SiteId::alpha) try_factor(scene, fits, t);
  if (scene.site() == SiteId::p) try_weights(scene, fits, t);
  if (scene.site() == SiteId::l) try_row_sum(scene, fits, t);
}

}  // namespace lanescope

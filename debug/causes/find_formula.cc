#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "debug/causes/detectors.h"
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

/// Scores, or maxima of them, with another factor than the one that the softmax owes them.
struct ScaledScores {
  std::string what;
  Array s;
};
std::vector<ScaledScores> wrongly_scaled(const Scene& scene) {
  const auto s = scene.held(SiteId::s, scene.tile());
  const double factor = scene.reference().softmax_factor().value;
  const double scale = reference::softmax_scale(scene.info().problem);
  if (!s || scene.reference().softmax_factor().none()) return {};
  return {{"without any factor", *s},
          {"without the factor log2(e)", *s * (factor / log2_e)},
          {"without the factor 1/sqrt(d)", *s * (factor / scale)},
          {"with their factor twice", *s * (factor * factor)}};
}

/// The maximum in other units than those of the scores that it is subtracted from.
std::vector<ScaledScores> wrongly_scaled_maxima(const Scene& scene, const Array& m) {
  const double scale = reference::softmax_scale(scene.info().problem);
  return {{"without any factor", m * (1 / (scale * log2_e))},
          {"without the factor log2(e)", m * (1 / log2_e)},
          {"without the factor 1/sqrt(d)", m * (1 / scale)},
          {"with the factor log2(e) twice", m * log2_e},
          {"with the factor 1/sqrt(d) twice", m * scale}};
}

/// Where m follows some rises alone, it has two values to choose from, that of before and the
/// maximum: in the wrong rows, the other one than it should.
void try_other_choice(const Scene& scene, const Formulas& fits, const Array& m_prev,
                      const Array& top) {
  Array m = scene.raised(m_prev, *scene.scores(scene.tile()), top);
  std::set<reference::Index> rises, stays;
  bool any_rises = false, any_stays = false;  // of right rows, in which scores rise
  for (const Element& e : scene.elements()) {
    const bool rose = m(e.row) != m_prev(e.row);
    if (e.wrong) (rose ? stays : rises).insert(e.row);
    if (!e.wrong && top(e.row) > m_prev(e.row)) (rose ? any_rises : any_stays) = true;
  }
  // A rule of all rows tells it, unless some keep to it.
  if ((rises.empty() && !any_rises) || (stays.empty() && !any_stays)) return;
  for (const reference::Index row : rises) m(row) = top(row);
  for (const reference::Index row : stays) m(row) = m_prev(row);
  if (rises.empty() || stays.empty()) {
    const bool rise = stays.empty();
    fits(Cause::wrong_formula,
         "m " + std::string(rise ? "follows" : "stays m_prev") + " in " +
             std::to_string(std::max(rises.size(), stays.size())) + " rows where it " +
             (rise ? "need not" : "must rise") + ", and in others it " +
             (rise ? "does not" : "does rise") + ": as if " + (rise ? "smaller" : "larger") +
             " rises counted",
         m);
    return;
  }
  fits(Cause::wrong_formula,
       "m takes the other one of m_prev and the maximum: it rises in " +
           std::to_string(rises.size()) + " rows where it need not, and stays in " +
           std::to_string(stays.size()) +
           " where it must rise, as if other rows decided whether it follows",
       m);
}

/// A block of threads that goes through several blocks of rows starts each anew.
void try_other_item(const Scene& scene, const Formulas& fits) {
  const Range blocks = scene.info().blocks;
  for (std::int64_t other = blocks.begin; other < blocks.end; ++other) {
    if (other == scene.block()) continue;
    const auto m = scene.end_of(other, SiteId::m);
    if (!m || m->rows() != scene.rows() || !(*m == scene.got()).all()) continue;
    fits(Cause::accumulator_not_cleared,
         "m_prev is m that the rows of block " + std::to_string(other) +
             " ended with: it is not set back to -inf before the next rows",
         *m);
    return;
  }
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
    fits(Cause::wrong_formula,
         "p = 2^(s - the maximum of the keys up to " +
             (keys == 1 ? std::string("its own)")
                        : "the end of its group of " + std::to_string(keys) + ")") +
             ": it is not rescaled where the maximum rises behind it in the tile",
         p);
  }
}

void try_softmax(const Scene& scene, const Formulas& fits) {
  const std::int64_t tile = scene.tile();
  const auto s = scene.scores(tile);
  auto m_prev = scene.held(SiteId::m_prev, tile);
  if (!m_prev) m_prev = scene.before(SiteId::m, tile);
  if (!s || !m_prev) return;
  if (scene.site() == SiteId::m_prev) {
    fits(Cause::stale_value, "m_prev equals the maximum of this tile's scores", row_max(*s));
    fits(Cause::accumulator_lost,
         "m_prev is -inf, what m starts from: what earlier tiles gave is gone",
         Array::Constant(scene.rows(), 1, -infinity));
    if (scene.earlier(tile) < 0) {
      try_other_item(scene, fits);
      const auto wrong = std::ranges::find_if(
          scene.elements(), [](const Element& e) { return e.wrong && std::isfinite(e.got); });
      if (wrong != scene.elements().end()) {
        fits(Cause::clamped,
             "m starts at " + value_text(wrong->got) + ", not at -inf: it never falls below",
             Array::Constant(scene.rows(), 1, wrong->got));
      }
    }
    if (scene.earlier(tile, 2) >= 0) {
      if (const auto older = scene.held(SiteId::m, scene.earlier(tile, 2))) {
        fits(Cause::stale_value, "m_prev is m of two tiles before", *older);
      }
    }
    return;
  }
  if (scene.site() == SiteId::m) {
    fits(Cause::never_updated, "m equals m_prev although larger scores exist", *m_prev);
    fits(Cause::accumulator_lost, "m is the maximum of this tile alone, m_prev is left out",
         row_max(*s));
    for (const auto& [what, scores] : wrongly_scaled(scene)) {
      fits(Cause::wrong_scale, "m is the maximum of the scores " + what,
           scene.raised(*m_prev, scores, row_max(scores)));
    }
    if (const RescaleRule& rule = scene.info().rescale; rule.above > 0) {
      const std::string limit = std::to_string(rule.above);
      fits(Cause::wrong_formula,
           "m follows every rise, not only those " +
               (rule.by_sums ? "that take a lane's sum of p over 2^" + limit
                             : "by more than " + limit),
           m_prev->max(row_max(*s)));
      try_other_choice(scene, fits, *m_prev, m_prev->max(row_max(*s)));
    }
    fits(Cause::wrong_formula, "m is the minimum of the scores", s->row_minima());
    fits(Cause::wrong_formula, "m is a maximum with 0",
         scene.raised(*m_prev, *s, row_max(*s).max(0)).max(0));
    fits(Cause::wrong_formula, "m is the minimum of m_prev and the maximum of the scores",
         m_prev->min(row_max(*s)));
    fits(
        Cause::wrong_formula, "m is the maximum of the magnitudes",
        scene.raised(*m_prev, *s,
                     row_max(s->map([](double x) { return std::isfinite(x) ? std::abs(x) : x; }))));
    return;
  }
  const auto m = scene.held(SiteId::m, tile);
  if (!m) return;
  const Array shift = (*m == -infinity).select(0, *m);
  const Array p = exp2(minus(*s, shift)), alpha = exp2(*m_prev - shift);
  const auto l_prev = scene.before(SiteId::l, tile);
  if (scene.site() == SiteId::alpha) {
    fits(Cause::not_rescaled, "alpha is 1: m_prev was read after m was updated, or not at all",
         Array::Ones(m->rows(), 1));
    fits(Cause::wrong_formula, "alpha = 2^(m - m_prev): the sign is wrong", exp2(*m - *m_prev));
    fits(Cause::wrong_base, "alpha = e^(m_prev - m), m is in base 2",
         exp2((*m_prev - shift) * log2_e));
    fits(Cause::wrong_base, "alpha = 2^((m_prev - m) ln 2)", exp2((*m_prev - shift) * ln_2));
    fits(Cause::wrong_formula, "alpha = 2^m_prev, m is not subtracted", exp2(*m_prev));
    if (const double unit = scene.unit_of(SiteId::m); unit != 1) {
      fits(Cause::wrong_scale,
           "alpha = 2^(m_prev - m) of maxima as they are held, which are not in base 2",
           exp2((*m_prev - shift) * (1 / unit)));
    }
    for (const auto& [how, whole] : whole_numbers) {
      const std::string of = std::string(how) + " a whole number";
      fits(Cause::precision_lost, "alpha = 2^(m_prev - m) with m " + of,
           exp2(*m_prev - shift.map(whole)));
      fits(Cause::precision_lost, "alpha = 2^(m_prev - m) with both " + of,
           exp2(m_prev->map(whole) - shift.map(whole)));
    }
    fits(Cause::wrong_formula, "alpha = 2^(m_prev - max of this tile)",
         exp2(*m_prev - row_max(*s)));
    fits(Cause::wrong_formula, "alpha = m_prev - m, without the exponential", *m_prev - shift);
    fits(Cause::rescaled_twice, "alpha is squared", alpha.square());
    // One that is 1 at every tile is 1, more than it is the old one.
    const auto old = scene.held(SiteId::alpha, scene.earlier(tile));
    if (old && !(*old == 1).all()) {
      fits(Cause::never_updated, "alpha equals alpha of the tile before", *old);
    }
  } else if (scene.site() == SiteId::p) {
    const Array sum = row_sum(p);
    fits(Cause::never_updated, "p still holds the scores", *s);
    for (const auto& [what, scores] : wrongly_scaled(scene)) {
      fits(Cause::wrong_scale, "p = 2^(s - m) of the scores " + what, exp2(minus(scores, shift)));
    }
    for (const auto& [what, maximum] : wrongly_scaled_maxima(scene, shift)) {
      fits(Cause::wrong_scale, "p = 2^(s - m) with m " + what, exp2(minus(*s, maximum)));
    }
    fits(Cause::stale_operand, "p = 2^(s - m_prev): the maximum of before this tile",
         exp2(minus(*s, (*m_prev == -infinity).select(0, *m_prev))));
    fits(Cause::wrong_formula, "p = 2^s: the maximum is not subtracted", exp2(*s));
    try_weights_of_one_pass(*s, *m_prev, fits);
    for (const auto& [how, whole] : whole_numbers) {
      fits(Cause::precision_lost, "p = 2^(s - m) with m " + std::string(how) + " a whole number",
           exp2(minus(*s, shift.map(whole))));
    }
    fits(Cause::wrong_formula, "p = 2^(s - max of this tile), not of the running maximum",
         exp2(minus(*s, row_max(*s))));
    fits(Cause::wrong_formula, "p = 2^(m - s): the sign is wrong", exp2(0 - minus(*s, shift)));
    fits(Cause::wrong_formula, "p = s - m: the exponential is missing", minus(*s, shift));
    fits(Cause::wrong_base, "p = e^(s - m), but s is in base 2", exp2(minus(*s, shift) * log2_e));
    fits(Cause::wrong_base, "p = 2^((s - m) ln 2)", exp2(minus(*s, shift) * ln_2));
    fits(Cause::normalised_twice, "p is divided by its row sum of this tile already",
         scaled(p, 1 / sum));
    if (l_prev) {
      fits(Cause::normalised_twice, "p is divided by the running l already",
           scaled(p, 1 / (alpha * *l_prev + sum)));
    }
    fits(Cause::rescaled_twice, "p is multiplied by alpha", scaled(p, alpha));
    if (const auto old = scene.held(SiteId::p, scene.earlier(tile))) {
      fits(Cause::never_updated, "p equals p of the tile before", *old);
    }
  } else if (scene.site() == SiteId::l && l_prev) {
    const Array sum = row_sum(p), rescaled = alpha * *l_prev;
    if (scene.earlier(tile) < 0) try_left_over(scene, fits);
    fits(Cause::never_updated, "l equals l of before this tile", *l_prev);
    fits(Cause::accumulator_lost, "l is the sum of this tile alone", sum);
    fits(Cause::not_rescaled, "l = l_prev + sum of p, not multiplied by alpha", *l_prev + sum);
    fits(Cause::rescaled_twice, "l = alpha^2 l_prev + sum of p", alpha * rescaled + sum);
    fits(Cause::rescaled_twice, "l = alpha (l_prev + sum of p): alpha belongs to l_prev alone",
         rescaled + alpha * sum);
    fits(Cause::wrong_formula, "l = l_prev + alpha * sum of p", *l_prev + alpha * sum);
    fits(Cause::contribution_missing, "l = alpha l_prev: the sum of p is missing", rescaled);
    for (const int times : {2, 4, 8, 16, 32}) {
      fits(Cause::contribution_repeated,
           "l = alpha l_prev + " + std::to_string(times) + " times the sum of p",
           rescaled + times * sum);
      fits(Cause::contribution_repeated,
           "alpha l_prev counts " + std::to_string(times) + " times: it is reduced with the sum",
           times * rescaled + sum);
    }
    fits(Cause::wrong_formula, "l adds the maximum of p, not the sum", rescaled + row_max(p));
    fits(Cause::wrong_formula, "l adds the scores, not p", rescaled + row_sum(*s));
    // As if weights were scores still.
    for (const bool relative : {false, true}) {
      const Array powers = row_sum(exp2(relative ? minus(p, shift) : p));
      fits(Cause::wrong_formula, relative ? "l adds 2^(p - m), not p" : "l adds 2^p, not p",
           rescaled + powers, 0, 0x1p-12 * powers);
    }
    fits(Cause::wrong_formula, "l adds p^2, not p", rescaled + row_sum(p * p));
  }
}

}  // namespace

void find_formula(const Scene& scene, Findings& findings) {
  const Formulas fits(scene, findings);
  switch (scene.first().stage) {
    case Stage::qk:
      return try_formulas_of_scores(scene, fits);
    case Stage::softmax:
      return try_softmax(scene, fits);
    case Stage::pv:
      return try_formulas_of_output(scene, fits);
    default:
      return;
  }
}

}  // namespace lanescope

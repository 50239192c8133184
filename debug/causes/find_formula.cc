#include <cmath>
#include <functional>

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
using reference::product;

void try_scores(const Scene& scene, const Formulas& fits) {
  const std::int64_t tile = scene.tile();
  const auto q = scene.held(SiteId::q_smem, 0), k = scene.held(SiteId::k_smem, tile);
  const double factor = scene.reference().score_factor().value;
  if (!q) return;
  const reference::Visible seen = scene.reference().visible(tile);
  const auto scores = [&](const Array& keys) {
    Array s = factor * product_transposed(*q, keys);
    for (reference::Index row = 0; row < s.rows(); ++row) {
      s.fill_row(row, -infinity, seen[static_cast<std::size_t>(row)]);
    }
    return s;
  };
  for (const std::int64_t other : {tile - 1, tile - 2, tile + 1}) {
    if (other < 0 || other >= scene.info().kv_tiles()) continue;
    const std::string name = "tile " + std::to_string(other);
    fits(Cause::stale_operand,
         "s is Q times the keys of " + name + " instead of this tile's, or s was not computed anew",
         scores(scene.reference().k_tile(other)));
  }
  if (const auto v = scene.held(SiteId::v_smem, tile)) {
    fits(Cause::stale_operand, "s is Q times V instead of K", scores(*v));
    if (k && v->rows() >= scene.rows()) {
      Array s = factor * product_transposed(v->top_rows(scene.rows()), *k);
      for (reference::Index row = 0; row < s.rows(); ++row) {
        s.fill_row(row, -infinity, seen[static_cast<std::size_t>(row)]);
      }
      fits(Cause::stale_operand, "s is V times K: V is read where Q should be", s);
    }
  }
  for (const SiteId id : {SiteId::s, SiteId::p}) {
    const auto before = scene.held(id, tile - 1);
    if (!before) continue;
    const std::string name = name_of(id);
    // The scores of the tile before are those of its keys, which was tried above.
    if (id == SiteId::p) fits(Cause::never_updated, "s equals p of the tile before", *before);
    const Array finite = before->map([](double x) { return std::isfinite(x) ? x : 0; });
    fits(Cause::accumulator_not_cleared,
         "s = Q.K + " + name + " of the tile before: the accumulator was not cleared",
         scene.want() + factor * finite);
  }
  if (k) {
    const Array dot = scores(*k) / factor;
    const double scale = reference::softmax_scale(scene.info().problem);
    const std::int64_t d = scene.info().problem.d;
    for (std::int64_t end = 8; end < d; end += 8) {
      Array s = factor * product_transposed(q->left_cols(end), k->left_cols(end));
      for (reference::Index row = 0; row < s.rows(); ++row) {
        s.fill_row(row, -infinity, seen[static_cast<std::size_t>(row)]);
      }
      fits(Cause::contribution_missing,
           "s lacks the columns " + std::to_string(end) + " to " + std::to_string(d - 1) + " of d",
           s);
    }
    for (const std::int64_t step : {8, 16, 32, 64}) {
      if (2 * step > d) continue;
      Array s = Array::Zero(q->rows(), k->rows()), before = s;
      for (std::int64_t end = step; end < d + step; end += step) {
        const std::int64_t known = std::min(end, d);
        const Array up_to = product_transposed(q->left_cols(known), k->left_cols(known));
        s = factor * (s + up_to - before);
        before = up_to;
      }
      for (reference::Index row = 0; row < s.rows(); ++row) {
        s.fill_row(row, -infinity, seen[static_cast<std::size_t>(row)]);
      }
      fits(Cause::scale_repeated,
           "the factor of s is applied after every " + std::to_string(step) +
               " columns of d, to what was summed up before them as well",
           s);
    }
    fits(Cause::wrong_scale, "s = Q.K without any factor", dot);
    fits(Cause::wrong_scale, "s = Q.K / sqrt(d), the factor log2(e) is missing",
         factor / log2_e * dot);
    fits(Cause::wrong_scale, "s = Q.K * log2(e), the factor 1/sqrt(d) is missing",
         factor / scale * dot);
    fits(Cause::wrong_scale, "s has the factor that the softmax multiplies with",
         factor * scene.reference().softmax_factor().value * dot);
  }
}

/// Scores with another factor than the one that the softmax owes them.
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
    if (tile > 1) {
      if (const auto older = scene.before(SiteId::m, tile - 1)) {
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
    fits(Cause::wrong_formula, "alpha = 2^(m_prev - max of this tile)",
         exp2(*m_prev - row_max(*s)));
    fits(Cause::wrong_formula, "alpha = m_prev - m, without the exponential", *m_prev - shift);
    fits(Cause::rescaled_twice, "alpha is squared", alpha.square());
    if (const auto old = scene.held(SiteId::alpha, tile - 1)) {
      fits(Cause::never_updated, "alpha equals alpha of the tile before", *old);
    }
  } else if (scene.site() == SiteId::p) {
    const Array sum = row_sum(p);
    fits(Cause::never_updated, "p still holds the scores", *s);
    for (const auto& [what, scores] : wrongly_scaled(scene)) {
      fits(Cause::wrong_scale, "p = 2^(s - m) of the scores " + what, exp2(minus(scores, shift)));
    }
    fits(Cause::stale_operand, "p = 2^(s - m_prev): the maximum of before this tile",
         exp2(minus(*s, (*m_prev == -infinity).select(0, *m_prev))));
    fits(Cause::wrong_formula, "p = 2^s: the maximum is not subtracted", exp2(*s));
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
    if (const auto old = scene.held(SiteId::p, tile - 1)) {
      fits(Cause::never_updated, "p equals p of the tile before", *old);
    }
  } else if (scene.site() == SiteId::l && l_prev) {
    const Array sum = row_sum(p), rescaled = alpha * *l_prev;
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
    }
    fits(Cause::contribution_repeated, "alpha l_prev counts twice", 2 * rescaled + sum);
    fits(Cause::contribution_repeated,
         "alpha l_prev counts four times: it was reduced with the sum", 4 * rescaled + sum);
    fits(Cause::wrong_formula, "l adds the maximum of p, not the sum", rescaled + row_max(p));
    fits(Cause::wrong_formula, "l adds the scores, not p", rescaled + row_sum(*s));
  }
}

void try_output(const Scene& scene, const Formulas& fits) {
  const std::int64_t tile = scene.tile();
  const auto p = scene.held(SiteId::p, tile), alpha = scene.held(SiteId::alpha, tile);
  const auto o_prev = scene.before(SiteId::o, tile), v = scene.held(SiteId::v_smem, tile);
  if (!p || !alpha || !o_prev) return;
  const Array own_v = v ? *v : scene.reference().v_tile(tile);
  const Array pv = product(*p, own_v), rescaled = scaled(*o_prev, *alpha);
  fits(Cause::never_updated, "o equals o of before this tile", *o_prev);
  fits(Cause::accumulator_lost, "o = P.V: what earlier tiles gave is gone", pv);
  fits(Cause::not_rescaled, "o = o_prev + P.V, not multiplied by alpha", *o_prev + pv);
  fits(Cause::rescaled_twice, "o = alpha^2 o_prev + P.V", scaled(rescaled, *alpha) + pv);
  fits(Cause::rescaled_twice, "o = alpha (o_prev + P.V): alpha belongs to o_prev alone",
       scaled(*o_prev + pv, *alpha));
  fits(Cause::wrong_formula, "o = o_prev + alpha P.V: alpha on the wrong term",
       *o_prev + scaled(pv, *alpha));
  fits(Cause::wrong_formula, "o is divided by alpha instead of multiplied",
       scaled(*o_prev, 1 / *alpha) + pv);
  fits(Cause::contribution_missing, "o = alpha o_prev: P.V is missing", rescaled);
  fits(Cause::contribution_repeated, "o = alpha o_prev + 2 P.V", rescaled + 2 * pv);
  for (const reference::Index step : {8, 16, 32}) {
    if (2 * step > own_v.rows() || own_v.rows() % step != 0) continue;
    Array o = *o_prev, before = 0 * o;
    for (reference::Index end = step; end <= own_v.rows(); end += step) {
      const Array up_to = product(p->left_cols(end), own_v.top_rows(end));
      o = scaled(o, *alpha) + up_to - before;
      before = up_to;
    }
    fits(Cause::rescaled_twice,
         "o is multiplied by alpha before every " + std::to_string(step) + " keys of the tile", o);
  }
  if (const auto old = scene.held(SiteId::alpha, tile - 1)) {
    fits(Cause::stale_operand, "o was multiplied by alpha of the tile before",
         scaled(*o_prev, *old) + pv);
    Array last = *alpha;  // that was not 1
    for (std::int64_t before = tile - 1; before >= 0; --before) {
      const auto older = scene.held(SiteId::alpha, before);
      if (!older) break;
      for (reference::Index row = 0; row < last.rows(); ++row) {
        if (last(row) == 1) last(row) = (*older)(row);
      }
    }
    fits(Cause::stale_operand,
         "where alpha is 1, o was multiplied by the last alpha of the row that was not",
         scaled(*o_prev, last) + pv);
  }
  if (const auto old = scene.held(SiteId::p, tile - 1)) {
    fits(Cause::stale_operand, "P of the tile before was multiplied with V",
         rescaled + product(*old, own_v));
  }
  for (const std::int64_t other : {tile - 1, tile - 2, tile + 1}) {
    if (other < 0 || other >= scene.info().kv_tiles()) continue;
    fits(Cause::stale_operand, "P was multiplied with V of tile " + std::to_string(other),
         rescaled + product(*p, scene.reference().v_tile(other)));
  }
  if (const auto k = scene.held(SiteId::k_smem, tile)) {
    fits(Cause::stale_operand, "P was multiplied with K instead of V", rescaled + product(*p, *k));
  }
  if (const SiteSlots* q = scene.judge().slots(SiteId::q_smem);
      q && q->holds(scene.block(), 0) && q->site().rows >= p->cols()) {
    fits(Cause::stale_operand, "P was multiplied with Q instead of V",
         rescaled + product(*p, q->elements(scene.block(), 0, p->cols())));
  }
  if (const auto l = scene.held(SiteId::l, tile)) {
    fits(Cause::normalised_twice, "o is divided by l already", scaled(rescaled + pv, 1 / *l));
    fits(Cause::normalised_twice, "P.V is divided by l already", rescaled + scaled(pv, 1 / *l));
  }
}

}  // namespace

void find_formula(const Scene& scene, Findings& findings) {
  const Formulas fits(scene, findings);
  switch (scene.first().stage) {
    case Stage::qk:
      return try_scores(scene, fits);
    case Stage::softmax:
      return try_softmax(scene, fits);
    case Stage::pv:
      return try_output(scene, fits);
    default:
      return;
  }
}

}  // namespace lanescope

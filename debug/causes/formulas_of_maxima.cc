// What m is instead of the maximum of the scores so far.

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "debug/causes/formulas.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;

using reference::infinity, reference::log2_e;

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
    fits(rise ? Cause::wrong_formula : Cause::never_updated,
         "m " + std::string(rise ? "follows" : "stays m_prev") + " in " +
             std::to_string(std::max(rises.size(), stays.size())) + " rows where it " +
             (rise ? "need not" : "must rise") + ", and in others it " +
             (rise ? "does not" : "does rise") + ": as if " + (rise ? "smaller" : "larger") +
             " rises counted",
         m);
    return;
  }
  fits(Cause::operand_of_other_row,
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

/// What l has before the first tile, whose scores are `s`, where m starts at `start` and rows
/// agree.
std::optional<double> sum_at_start(const Scene& scene, const Array& s, double start) {
  const auto m = scene.held(SiteId::m, scene.tile()), l = scene.held(SiteId::l, scene.tile());
  if (!m || !l || m->rows() != s.rows() || l->rows() != s.rows()) return std::nullopt;
  std::vector<double> sums;
  for (reference::Index row = 0; row < s.rows(); ++row) {
    const double factor = std::exp2(start - (*m)(row));
    double sum = 0;
    for (reference::Index col = 0; col < s.cols(); ++col) sum += std::exp2(s(row, col) - (*m)(row));
    const double held = (*l)(row), share = (held - sum) / factor;
    // Of less, the rounding of the sum leaves nothing.
    constexpr double least = 1.0 / 64;
    if (factor > least * sum && std::isfinite(share)) sums.push_back(share);
  }
  if (sums.empty()) return std::nullopt;
  const auto [low, high] = std::ranges::minmax(sums);
  if (!(low > 0.5) || high - low > 0.01 * high) return std::nullopt;
  return (low + high) / 2;
}

/// m starts at another number than -inf; l may have something to go with it.
void try_start(const Scene& scene, const Formulas& fits, const Array& s) {
  const auto wrong = std::ranges::find_if(
      scene.elements(), [](const Element& e) { return e.wrong && std::isfinite(e.got); });
  if (wrong == scene.elements().end()) return;
  const Array start = Array::Constant(scene.rows(), 1, wrong->got);
  const std::string at = "m starts at " + value_text(wrong->got);
  if (const std::optional<double> sum = sum_at_start(scene, s, wrong->got)) {
    fits(Cause::wrong_formula,
         at + " and l at " + number_text(*sum, 3) +
             ", not at -inf and 0: as if there were a key more with that score (an attention sink)",
         start);
    return;
  }
  fits(Cause::clamped, at + ", not at -inf: it never falls below", start);
}

/// What m_prev is, where it is not m of the tile before.
void try_maximum_of_before(const Scene& scene, const Formulas& fits, const Array& s) {
  const std::int64_t tile = scene.tile();
  fits(Cause::stale_value, "m_prev equals the maximum of this tile's scores", s.row_maxima());
  fits(Cause::accumulator_lost,
       "m_prev is -inf, what m starts from: what earlier tiles gave is gone",
       Array::Constant(scene.rows(), 1, -infinity));
  if (scene.earlier(tile) < 0) {
    try_other_item(scene, fits);
    try_start(scene, fits, s);
  }
  if (scene.earlier(tile, 2) >= 0) {
    if (const auto older = scene.held(SiteId::m, scene.earlier(tile, 2))) {
      fits(Cause::stale_value, "m_prev is m of two tiles before", *older);
    }
  }
}

/// Whether every wrong row is of numbers as scores, and of NaN as weights.
bool makes_nan_of(const Scene& scene, const Array& s) {
  const auto p = scene.held(SiteId::p, scene.tile());
  if (!p || p->rows() != s.rows() || p->cols() != s.cols()) return false;
  return std::ranges::all_of(scene.elements(), [&](const Element& e) {
    bool is_nan = true;
    for (reference::Index col = 0; e.wrong && col < s.cols(); ++col) {
      is_nan = is_nan && (!std::isfinite(s(e.row, col)) || std::isnan((*p)(e.row, col)));
    }
    return is_nan;
  });
}

/// m of the scores of all keys of the tile, those too that the causal mask hides.
void try_unmasked(const Scene& scene, const Formulas& fits, const Array& s, const Array& m_prev) {
  if (!scene.info().problem.causal) return;
  const reference::OnlineBlock& reference = scene.reference();
  const Array q = reference.q_tile(), k = reference.k_tile(scene.tile());
  const double factor = reference.score_factor().value * reference.softmax_factor().value;
  const Array usual = scene.raised(m_prev, s, s.row_maxima());
  Array m = m_prev, error = Array::Zero(s.rows(), 1);
  for (reference::Index row = 0; row < s.rows(); ++row) {
    if (usual(row) == m_prev(row) && scene.info().rescale.above > 0) continue;
    for (reference::Index key = 0; key < k.rows(); ++key) {
      double sum = 0, size = 0;
      for (reference::Index col = 0; col < k.cols(); ++col) {
        sum += q(row, col) * k(key, col);
        size += std::abs(q(row, col) * k(key, col));
      }
      m(row) = std::max(m(row), sum * factor);
      // Products of a tensor core lose no more than that of a sum (of an e4m3, 2^-13).
      error(row) = std::max(error(row), size * factor * 0x1p-12);
    }
  }
  fits(Cause::causal_mask_missing,
       "m is the maximum of the scores of all keys of the tile, those too that the mask hides", m,
       0, error);
}

/// By how much m would rise, in base 2: at most where it is kept, at least where it is taken.
struct Rises {
  double kept = 0, taken = infinity;
};

void add_rises(const Scene& scene, const Array& s, const Array& m_prev, Rises& rises) {
  const Array top = s.row_maxima();
  for (const Element& e : scene.elements()) {
    const double rise = top(e.row) - m_prev(e.row);
    if (!(rise > 0) || rise == infinity) continue;
    if (e.wrong) rises.kept = std::max(rises.kept, rise);
    if (!e.wrong) rises.taken = std::min(rises.taken, rise);
  }
}

/// m that is kept until it rises by more than a threshold, where P does not hold what comes of it:
/// anywhere, some rows take what is above, and those that keep m would rise by less.
void try_kept_too_long(const Scene& scene, const Formulas& fits, const Array& s,
                       const Array& m_prev) {
  const DumpInfo& info = scene.info();
  const SiteSlots* const p = scene.judge().slots(SiteId::p);
  const ElementType type =
      type_of_weights(info.products, info.dtype, p ? p->site().type : ElementType::f32);
  Rises rises;
  add_rises(scene, s, m_prev, rises);
  int left = 64;  // scenes, of each a moment
  for (std::int64_t block = info.blocks.begin; block < info.blocks.end && left > 0; ++block) {
    for (std::int64_t tile = 0; tile < info.kv_tiles() && left > 0; ++tile, --left) {
      if (!scene.judge().slots(SiteId::m)->holds(block, tile)) continue;
      Divergence other = scene.first();
      other.block = block;
      other.tile = tile;
      const Scene there(scene.dump(), other, Breadth::none);
      const auto scores = there.scores(tile), before = there.before(SiteId::m, tile);
      if (scores && before) add_rises(there, *scores, *before, rises);
    }
  }
  if (!(rises.kept > highest_power(type) && rises.kept < rises.taken && rises.taken < infinity)) {
    return;
  }
  const Array top = s.row_maxima();
  Array m = m_prev;
  for (reference::Index row = 0; row < m.rows(); ++row) {
    if (!(top(row) - m_prev(row) < rises.taken)) m(row) = std::max(m_prev(row), top(row));
  }
  fits(Cause::overflow,
       "m is kept where it would rise by up to " + number_text(rises.kept, 3) +
           ", and taken from " + number_text(rises.taken, 3) + " on, in base 2: P of " +
           name_of(type) + " holds no more than 2^" + std::to_string(highest_power(type)),
       m);
}

void try_maximum(const Scene& scene, const Formulas& fits, const Array& s, const Array& m_prev) {
  if (makes_nan_of(scene, s)) {
    fits.doubtful(Cause::non_finite,
                  "m equals m_prev and P of the same rows is NaN: a maximum drops NaN, so what the "
                  "scores are multiplied by may be none",
                  m_prev);
    return;
  }
  fits(Cause::never_updated, "m equals m_prev although larger scores exist", m_prev);
  try_kept_too_long(scene, fits, s, m_prev);
  fits(Cause::accumulator_lost, "m is the maximum of this tile alone, m_prev is left out",
       s.row_maxima());
  try_unmasked(scene, fits, s, m_prev);
  for (const auto& [what, scores] : wrongly_scaled(scene)) {
    fits(Cause::wrong_scale, "m is the maximum of the scores " + what,
         scene.raised(m_prev, scores, scores.row_maxima()));
  }
  if (const RescaleRule& rule = scene.info().rescale; rule.above > 0) {
    const std::string limit = std::to_string(rule.above);
    fits(Cause::wrong_formula,
         "m follows every rise, not only those " +
             (rule.by_sums ? "that take a lane's sum of p over 2^" + limit
                           : "by more than " + limit),
         m_prev.max(s.row_maxima()));
    try_other_choice(scene, fits, m_prev, m_prev.max(s.row_maxima()));
  }
  fits(Cause::wrong_formula, "m is the minimum of the scores", s.row_minima());
  fits(Cause::wrong_formula, "m is a maximum with 0",
       scene.raised(m_prev, s, s.row_maxima().max(0)).max(0));
  fits(Cause::wrong_formula, "m is the minimum of m_prev and the maximum of the scores",
       m_prev.min(s.row_maxima()));
  fits(Cause::wrong_formula, "m is the maximum of the magnitudes",
       scene.raised(m_prev, s, s.map([](double x) {
                                  return std::isfinite(x) ? std::abs(x) : x;
                                }).row_maxima()));
}

}  // namespace

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

void try_formulas_of_maxima(const Scene& scene, const Formulas& fits, const Array& s,
                            const Array& m_prev) {
  if (scene.site() == SiteId::m_prev) return try_maximum_of_before(scene, fits, s);
  try_maximum(scene, fits, s, m_prev);
}

}  // namespace lanescope

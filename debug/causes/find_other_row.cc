#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "debug/causes/detectors.h"
#include "debug/causes/extent.h"
#include "debug/causes/phrases.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::Index;
using reference::product;

/// What (row, col) would hold if an operand were that of the row `other`.
using Predict = std::function<double(Index row, Index other, Index col)>;

/// Which row's operand an element takes, by its row, or by its column; −1: none of the tile.
struct RowRule {
  std::string text;
  std::function<Index(Index)> other;
  bool by_column = false;

  Index operator()(const Element& e) const { return other(by_column ? e.col : e.row); }
};

std::vector<RowRule> row_rules(Index rows) {
  std::vector<RowRule> rules;
  const auto add = [&](const std::string& text, const std::function<Index(Index)>& other) {
    rules.push_back({text, other});
  };
  for (Index step = 1; step < rows; step *= 2) {
    const std::string by = std::to_string(step);
    add("row i takes that of row i xor " + by, [=](Index row) { return row ^ step; });
    add("row i takes that of row i without the bit " + by, [=](Index row) { return row & ~step; });
    add("row i takes that of row i with the bit " + by, [=](Index row) { return row | step; });
    if (step < 2) continue;
    add("row i takes that of row i modulo " + by, [=](Index row) { return row % step; });
    add("all rows of " + by + " take that of the first",
        [=](Index row) { return row / step * step; });
    add("all rows of " + by + " take that of the last",
        [=](Index row) { return row / step * step + step - 1; });
    add("row i takes that of row i / " + by, [=](Index row) { return row / step; });
  }
  for (Index step = 1; step < rows && step <= 32; ++step) {
    add("row i takes that of row i + " + std::to_string(step),
        [=](Index row) { return row + step; });
    add("row i takes that of row i - " + std::to_string(step),
        [=](Index row) { return row - step; });
  }
  for (Index mask = 3; mask < rows; ++mask) {
    if ((mask & (mask - 1)) == 0) continue;
    add("row i takes that of row i xor " + std::to_string(mask),
        [=](Index row) { return row ^ mask; });
  }
  add("row i takes that of row " + std::to_string(rows - 1) + " - i",
      [=](Index row) { return rows - 1 - row; });
  for (Index row = 0; row < rows; ++row) {
    add("all rows take that of row " + std::to_string(row), [=](Index) { return row; });
  }
  for (Index step = 2; step <= rows; step *= 2) {
    const std::string by = std::to_string(step);
    rules.push_back(
        {"column j takes that of row j modulo " + by, [=](Index col) { return col % step; }, true});
    rules.push_back(
        {"column j takes that of row j / " + by, [=](Index col) { return col / step; }, true});
  }
  return rules;
}

/// Rows with wrong values that a finding explains: of one or two, a rule says nothing.
constexpr std::size_t fewest_rows = 3;
/// Wrong values that tell another row from the own one, and the share of them that must follow.
constexpr int fewest_decisive = 4;
constexpr double least_explained = 0.9;

bool is_decisive(const Scene& scene, const Element& e) {
  return e.wrong && (e.unwritten || !scene.fits(e.row, e.col, e.got, e.want));
}

std::vector<const Element*> decisive_elements(const Scene& scene) {
  std::vector<const Element*> decisive;
  for (const Element& e : scene.elements()) {
    if (is_decisive(scene, e)) decisive.push_back(&e);
  }
  return decisive;
}

/// Whether enough of what tells follows from the rule, of which most do not: they are given up
/// before all elements are gone over.
bool may_fit(const Scene& scene, const std::vector<const Element*>& decisive, const RowRule& rule,
             const Predict& predict) {
  int known = 0, explained = 0;
  for (const Element* e : decisive) {
    const Index other = rule(*e);
    if (other < 0 || other >= scene.rows()) continue;
    ++known;
    if (e->unwritten) continue;
    const double value = predict(e->row, other, e->col);
    explained += !std::isnan(value) && scene.fits(e->row, e->col, e->got, value);
  }
  return known >= fewest_decisive && !(explained < least_explained * known);
}

/// How well a rule fits those elements whose other row is one of the tile's; `known`: how many of
/// the wrong ones these are.
Fit fit_of_known_rows(const Scene& scene, const std::vector<double>& values,
                      const std::vector<bool>& is_known, int& known) {
  FitCount count;
  known = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Element& e = scene.elements()[i];
    if (!is_known[i]) continue;
    known += e.wrong;
    const bool hit =
        !e.unwritten && !std::isnan(values[i]) && scene.fits(e.row, e.col, e.got, values[i]);
    count.add(is_decisive(scene, e), hit);
  }
  return count.fit();
}

/// A rule for all rows alike.
std::optional<Finding> try_one_rule(const Scene& scene, const std::string& text,
                                    const Predict& predict) {
  std::vector<double> own;
  for (const Element& e : scene.elements()) own.push_back(predict(e.row, e.row, e.col));
  // What the row's own operand gives as well, as it is held, no other row explains.
  if (scene.fit(own).explained >= 0.9) return std::nullopt;
  const std::vector<RowRule> rules = row_rules(scene.rows());
  const std::vector<const Element*> decisive = decisive_elements(scene);
  std::optional<Finding> best;
  for (const RowRule& rule : rules) {
    if (!may_fit(scene, decisive, rule, predict)) continue;
    std::vector<double> values;
    std::vector<bool> is_known;
    std::vector<std::int64_t> rows;
    for (const Element& e : scene.elements()) {
      const Index other = rule(e);
      // Beyond the rows that exist, nobody knows what stands there.
      is_known.push_back(other >= 0 && other < scene.rows());
      values.push_back(is_known.back() ? predict(e.row, other, e.col) : e.got);
      if (!is_known.back() || !e.wrong || other == e.row) continue;
      if (rows.empty() || rows.back() != e.row) rows.push_back(e.row);
    }
    if (rows.size() < fewest_rows) continue;
    int known = 0;
    const Fit fit = fit_of_known_rows(scene, values, is_known, known);
    if (fit.decisive < fewest_decisive || fit.explained < least_explained ||
        2 * known < scene.wrong_count()) {
      continue;
    }
    Finding finding{Cause::operand_of_other_row, fit.explained, fit.consistent, true};
    finding.bits += std::log2(static_cast<double>(rules.size()));
    finding.evidence = {text + " is that of another row: " + rule.text};
    if (finding.certain() && fit.consistent < 0.98) {
      if (const std::optional<Extent> extent = extent_of(scene, values)) {
        finding.consistent = 1;
        finding.bits += extent_bits;
        finding.evidence[0] += "; so in " + extent->text + " alone";
      } else {
        finding.explained = std::min(finding.explained, 0.97);  // rows are right that would not be
      }
    }
    const auto merit = [](const Finding& x) {  // of equal ones, what is said in fewer words
      return std::pair(x.explained + x.consistent, -x.bits);
    };
    if (!best || merit(finding) > merit(*best)) best = finding;
    if (finding.certain() && fit.consistent >= 0.98) break;
  }
  return best;
}

/// The row whose operand explains the wrong values of each row, each by itself: so many free
/// choices that it is never certain.
std::optional<Finding> try_free_rows(const Scene& scene, const std::string& text,
                                     const Predict& predict) {
  std::vector<std::vector<const Element*>> wrong(static_cast<std::size_t>(scene.rows()));
  for (const Element& e : scene.elements()) {
    if (e.wrong && !e.unwritten) wrong[static_cast<std::size_t>(e.row)].push_back(&e);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> map;
  int explained = 0;
  for (Index row = 0; row < scene.rows(); ++row) {
    const auto& own = wrong[static_cast<std::size_t>(row)];
    std::optional<Index> source;
    int matches = 0;
    for (Index other = 0; other < scene.rows() && !own.empty(); ++other) {
      const bool all = other != row && std::all_of(own.begin(), own.end(), [&](const Element* e) {
                         return scene.fits(e->row, e->col, e->got, predict(row, other, e->col));
                       });
      matches += all;
      if (all) source = other;
    }
    if (matches != 1) continue;
    explained += static_cast<int>(own.size());
    map.emplace_back(row, *source);
  }
  const double share = static_cast<double>(explained) / scene.wrong_count();
  if (map.size() < fewest_rows || share < 0.5) return std::nullopt;
  Finding finding{Cause::operand_of_other_row, 0.9 * share};
  finding.bits += static_cast<double>(map.size()) * std::log2(static_cast<double>(scene.rows()));
  finding.evidence = {text + " of another row explains " +
                          share_text(explained, scene.wrong_count()) + " wrong values",
                      mapping_text(map, "row")};
  return finding;
}

void try_rules(const Scene& scene, const std::string& text, const Predict& predict,
               Findings& findings) {
  // Zeros, to which weights far below a maximum come of many rows, tell none.
  const std::vector<const Element*> decisive = decisive_elements(scene);
  if (std::ranges::all_of(decisive, [](const Element* e) { return e->got == 0; })) return;
  std::optional<Finding> finding = try_one_rule(scene, text, predict);
  if (!finding || !finding->certain()) {
    const std::optional<Finding> free = try_free_rows(scene, text, predict);
    if (free && (!finding || free->explained > finding->explained)) finding = free;
  }
  if (finding) findings.push_back(*finding);
}

}  // namespace

void find_other_row(const Scene& scene, Findings& findings) {
  const bool at_end = scene.at_end();
  const std::int64_t tile = at_end ? scene.end_tile() : scene.tile();
  const auto s = scene.scores(tile), m = scene.held(SiteId::m, tile),
             p = scene.held(SiteId::p, tile), alpha = scene.held(SiteId::alpha, tile),
             l = scene.held(SiteId::l, tile), o = scene.held(SiteId::o, tile);
  const auto l_prev = scene.before(SiteId::l, tile), o_prev = scene.before(SiteId::o, tile);
  auto m_prev = scene.held(SiteId::m_prev, tile);
  if (!m_prev) m_prev = scene.before(SiteId::m, tile);
  const auto attempt = [&](const std::string& text, const Predict& predict) {
    try_rules(scene, text, predict, findings);
  };
  if (scene.site() == SiteId::s) {
    const auto q = scene.held(SiteId::q_smem, 0), k = scene.held(SiteId::k_smem, tile);
    if (!q || !k) return;
    const Array dots = scene.reference().score_factor().value * product_transposed(*q, *k);
    const reference::Visible seen = scene.reference().visible(tile);
    // Rows that change places are right values in wrong ones; those of Q that stand twice are right
    // where they belong.
    std::vector<bool> is_right(static_cast<std::size_t>(scene.rows()), true);
    for (const Element& e : scene.elements()) {
      if (e.wrong) is_right[static_cast<std::size_t>(e.row)] = false;
    }
    attempt("Q", [&](Index r, Index x, Index c) {
      if (!is_right[static_cast<std::size_t>(x)]) return std::nan("");
      return c < seen[static_cast<std::size_t>(r)] ? dots(x, c) : -reference::infinity;
    });
  } else if (scene.site() == SiteId::m && s && m_prev) {
    const Array top = s->row_maxima();
    attempt("m_prev",
            [&](Index r, Index x, Index) { return scene.raised((*m_prev)(x), *s, r, top(r)); });
    attempt("the maximum of the scores",
            [&](Index r, Index x, Index) { return scene.raised((*m_prev)(r), *s, r, top(x)); });
  } else if (scene.site() == SiteId::alpha && m && m_prev) {
    attempt("m", [&](Index r, Index x, Index) { return std::exp2((*m_prev)(r) - (*m)(x)); });
    attempt("m_prev", [&](Index r, Index x, Index) { return std::exp2((*m_prev)(x) - (*m)(r)); });
    attempt("m_prev, taken after m was updated,",
            [&](Index r, Index x, Index) { return std::exp2((*m)(x) - (*m)(r)); });
  } else if (scene.site() == SiteId::p && s && m) {
    attempt("m", [&](Index r, Index x, Index c) { return std::exp2((*s)(r, c) - (*m)(x)); });
  } else if (scene.site() == SiteId::l && p && alpha && l_prev) {
    const Array sum = p->row_sums();
    attempt("alpha", [&](Index r, Index x, Index) { return (*alpha)(x) * (*l_prev)(r) + sum(r); });
    attempt("l_prev", [&](Index r, Index x, Index) { return (*alpha)(r) * (*l_prev)(x) + sum(r); });
    attempt("the sum of p",
            [&](Index r, Index x, Index) { return (*alpha)(r) * (*l_prev)(r) + sum(x); });
  } else if (scene.site() == SiteId::o && p && alpha && o_prev) {
    const auto v = scene.held(SiteId::v_smem, tile);
    const Array pv = product(*scene.weights(tile), v ? *v : scene.reference().v_tile(tile));
    attempt("alpha",
            [&](Index r, Index x, Index c) { return (*alpha)(x) * (*o_prev)(r, c) + pv(r, c); });
    attempt("P",
            [&](Index r, Index x, Index c) { return (*alpha)(r) * (*o_prev)(r, c) + pv(x, c); });
  } else if (scene.site() == SiteId::o_final && o && l) {
    const double factor = scene.reference().output_factor().value;
    attempt("l", [&](Index r, Index x, Index c) { return (*o)(r, c) / (*l)(x)*factor; });
    attempt("o", [&](Index r, Index x, Index c) { return (*o)(x, c) / (*l)(r)*factor; });
  } else if (scene.site() == SiteId::m_partial || scene.site() == SiteId::l_partial) {
    attempt("the value", [&](Index, Index x, Index) { return scene.want()(x); });
  } else if (scene.site() == SiteId::lse) {
    attempt("the value", [&](Index, Index x, Index) { return scene.want()(x); });
    if (!m || !l) return;
    attempt("m", [&](Index r, Index x, Index) {
      return ((*m)(x) + std::log2((*l)(r))) * std::log(2.0);
    });
    attempt("l", [&](Index r, Index x, Index) {
      return ((*m)(r) + std::log2((*l)(x))) * std::log(2.0);
    });
  }
}

}  // namespace lanescope

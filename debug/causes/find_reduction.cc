#include <bit>
#include <cmath>
#include <functional>
#include <set>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::Index;

using reference::infinity;

/// What m or l would be if only the columns that `keep` keeps for an element were reduced.
class Reduction {
 public:
  explicit Reduction(const Scene& scene) {
    const std::int64_t tile = scene.tile();
    is_maximum_ = scene.site() == SiteId::m;
    const auto s = scene.scores(tile), m = scene.held(SiteId::m, tile);
    auto start = scene.held(SiteId::m_prev, tile);
    if (!start) start = scene.before(SiteId::m, tile);
    if (!s || !start || (scene.site() != SiteId::m && scene.site() != SiteId::l)) return;
    if (is_maximum_) {
      terms_ = *s;
      start_ = *start;
    } else {
      const auto l_prev = scene.before(SiteId::l, tile);
      if (!m || !l_prev) return;
      const Array shift = (*m == -infinity).select(0, *m);
      terms_ = (*s - shift).map([](double x) { return std::exp2(x); });
      start_ = (*start - shift).map([](double x) { return std::exp2(x); }) * *l_prev;
    }
    possible_ = true;
  }
  bool possible() const { return possible_; }
  Index cols() const { return terms_.cols(); }

  bool is_maximum() const { return is_maximum_; }

  /// `times`: how often a sum counts what is kept.
  template <class Keep>
  double over(Index row, const Keep& keep, double times = 1) const {
    double value = start_(row);
    for (Index col = 0; col < terms_.cols(); ++col) {
      if (!keep(col)) continue;
      value = is_maximum_ ? std::fmax(value, terms_(row, col)) : value + times * terms_(row, col);
    }
    return value;
  }

 private:
  bool possible_ = false, is_maximum_ = false;
  Array terms_, start_;
};

void keep_if_good(const Scene& scene, const std::vector<double>& values, const std::string& text,
                  std::optional<Finding>& best) {
  const Fit fit = scene.fit(values);
  if (fit.explained < 0.5 || fit.decisive == 0) return;
  if (best && best->explained + best->consistent >= fit.explained + fit.consistent) return;
  best = Finding{Cause::incomplete_reduction, fit.explained, fit.consistent};
  best->evidence = {std::string(name_of(scene.site())) + " covers " + text};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Element& e = scene.elements()[i];
    if (!e.wrong || !scene.fits(e.row, e.col, e.got, values[i])) continue;
    best->evidence.push_back("e.g. " + example_text(scene, e));
    return;
  }
}

/// The lane that takes each column of each row into the reduction.
using LaneOf = std::vector<std::vector<std::int64_t>>;

/// The lanes that hold the scores. Where these lie in shared memory, the two usual ways to share a
/// row among the lanes that hold its result: each a part of the row, or every n-th column.
std::vector<LaneOf> lanes_of_columns(const Scene& scene, const Reduction& reduction) {
  const SiteSlots* s = scene.judge().slots(SiteId::s);
  const auto row_count = static_cast<std::size_t>(scene.rows());
  const auto cols = static_cast<std::size_t>(reduction.cols());
  LaneOf lane_of(row_count, std::vector<std::int64_t>(cols, -1));
  if (!s) return {};
  if (s->site().space == Space::registers) {
    for (std::int64_t slot = 0; slot < s->count(); ++slot) {
      const int row = s->row(slot), col = s->col(slot);
      if (row < 0 || row >= scene.rows()) continue;
      lane_of[static_cast<std::size_t>(row)][static_cast<std::size_t>(col)] = s->holder(slot).lane;
    }
    return {lane_of};
  }
  std::vector<std::set<std::int64_t>> holders(row_count);
  for (const Element& e : scene.elements()) {
    holders[static_cast<std::size_t>(e.row)].insert(e.holder.lane);
  }
  LaneOf in_turn = lane_of;
  for (std::size_t row = 0; row < row_count; ++row) {
    const std::vector<std::int64_t> lanes(holders[row].begin(), holders[row].end());
    if (lanes.size() < 2 || cols % lanes.size() != 0) return {};
    for (std::size_t col = 0; col < cols; ++col) {
      lane_of[row][col] = lanes[col / (cols / lanes.size())];
      in_turn[row][col] = lanes[col % lanes.size()];
    }
  }
  return {lane_of, in_turn};
}

/// Reductions over the columns of some lanes of the row: `mask` has the bits in which the lanes
/// that were combined differ.
void try_lanes(const Scene& scene, const Reduction& reduction, const LaneOf& lane_of,
               std::optional<Finding>& best) {
  const auto attempt = [&](bool from_first, int times) {
    for (int mask = 0; mask < 32; ++mask) {
      std::vector<double> values;
      std::string lanes;
      std::size_t own_lanes = 0;
      for (const Element& e : scene.elements()) {
        const auto& row = lane_of[static_cast<std::size_t>(e.row)];
        const std::set<std::int64_t> all(row.begin(), row.end());
        const std::int64_t own = from_first ? *all.begin() : e.holder.lane;
        std::set<std::int64_t> used;
        values.push_back(reduction.over(
            e.row,
            [&](Index col) {
              const std::int64_t lane = row[static_cast<std::size_t>(col)];
              if (((lane ^ own) & ~mask) != 0) return false;
              used.insert(lane);
              return true;
            },
            times));
        own_lanes = std::max(own_lanes, used.size());
        if (used.size() == all.size()) break;  // the whole row: nothing is left out
        if (lanes.empty() && e.wrong) {
          lanes =
              list_text({used.begin(), used.end()}) + " of " + list_text({all.begin(), all.end()});
        }
      }
      if (values.size() != scene.elements().size() || own_lanes == 0) continue;
      keep_if_good(scene, values,
                   "only the columns of " + std::to_string(own_lanes) + " of the row's lanes" +
                       (from_first ? ", the first ones, whose value all lanes hold"
                                   : ", its own and those it was combined with") +
                       " (lanes " + lanes + ")" +
                       (times > 1 ? ", " + std::to_string(times) + " times" : ""),
                   best);
    }
  };
  attempt(false, 1);
  attempt(true, 1);
  for (int times = 2; times <= 32 && !reduction.is_maximum(); times *= 2) attempt(false, times);
}

/// Reductions over a range of columns, or every other column.
void try_columns(const Scene& scene, const Reduction& reduction, std::optional<Finding>& best) {
  const Index cols = reduction.cols();
  const auto attempt = [&](const std::string& text, const auto& keep) {
    Array column(scene.rows(), 1);
    for (Index row = 0; row < scene.rows(); ++row) column(row) = reduction.over(row, keep);
    keep_if_good(scene, scene.by_element(column), text, best);
  };
  for (Index end = 1; end < cols; ++end) {
    attempt("only the columns 0.." + std::to_string(end - 1) + " of the tile",
            [&](Index col) { return col < end; });
    attempt("only the columns from " + std::to_string(end) + " on",
            [&](Index col) { return col >= end; });
  }
  for (const Index stride : {2, 4, 8, 16, 32}) {
    for (Index phase = 0; phase < stride && stride <= cols / 2; ++phase) {
      attempt("only the columns " + std::to_string(phase) + " modulo " + std::to_string(stride),
              [&](Index col) { return col % stride == phase; });
    }
  }
  for (Index width = 1; 2 * width < cols; width *= 2) {
    attempt("only the columns with bit " + std::to_string(std::countr_zero(std::uint64_t(width))) +
                " of their number zero",
            [&](Index col) { return (col & width) == 0; });
  }
}

using Predict = std::function<double(Index row, Index other, Index col)>;

/// The row whose operand explains the wrong values of each row, where it is one alone.
void try_rows(const Scene& scene, const std::string& text, const Predict& predict,
              Findings& findings) {
  std::vector<std::vector<const Element*>> wrong(static_cast<std::size_t>(scene.rows()));
  for (const Element& e : scene.elements()) {
    if (e.wrong && !e.unwritten) wrong[static_cast<std::size_t>(e.row)].push_back(&e);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> map;
  int explained = 0;
  for (Index row = 0; row < scene.rows(); ++row) {
    const auto& own = wrong[static_cast<std::size_t>(row)];
    std::vector<Index> fitting;
    for (Index other = 0; other < scene.rows() && !own.empty(); ++other) {
      const bool all = std::all_of(own.begin(), own.end(), [&](const Element* e) {
        const double value = predict(row, other, e->col);
        return scene.fits(e->row, e->col, e->got, value);
      });
      if (all && other != row) fitting.push_back(other);
    }
    if (fitting.empty()) continue;
    // Several rows may fit by chance; the one at the distance seen before is the likely one.
    Index chosen = fitting.front();
    for (const Index other : fitting) {
      if (!map.empty() && ((other ^ row) == (map[0].first ^ map[0].second) ||
                           other - row == map[0].second - map[0].first)) {
        chosen = other;
      }
    }
    explained += static_cast<int>(own.size());
    map.emplace_back(row, chosen);
  }
  const double share = static_cast<double>(explained) / scene.wrong_count();
  if (map.size() < 3 || share < 0.5) return;
  Finding finding{Cause::operand_of_other_row, share};
  finding.evidence = {text + " of another row explains " +
                          share_text(explained, scene.wrong_count()) + " wrong values",
                      mapping_text(map, "row")};
  findings.push_back(finding);
}

}  // namespace

void find_incomplete_reduction(const Scene& scene, Findings& findings) {
  const Reduction reduction(scene);
  if (!reduction.possible()) return;
  std::optional<Finding> best;
  for (const LaneOf& lane_of : lanes_of_columns(scene, reduction)) {
    try_lanes(scene, reduction, lane_of, best);
  }
  if (!best || !best->certain()) try_columns(scene, reduction, best);
  if (best) findings.push_back(*best);
}

void find_other_row(const Scene& scene, Findings& findings) {
  const bool at_end = scene.at_end();
  const std::int64_t tile = at_end ? scene.last_tile() : scene.tile();
  const auto s = scene.scores(tile), m = scene.held(SiteId::m, tile),
             p = scene.held(SiteId::p, tile), alpha = scene.held(SiteId::alpha, tile),
             l = scene.held(SiteId::l, tile), o = scene.held(SiteId::o, tile);
  const auto l_prev = scene.before(SiteId::l, tile), o_prev = scene.before(SiteId::o, tile);
  auto m_prev = scene.held(SiteId::m_prev, tile);
  if (!m_prev) m_prev = scene.before(SiteId::m, tile);
  const auto attempt = [&](const std::string& text, const Predict& predict) {
    try_rows(scene, text, predict, findings);
  };
  if (scene.site() == SiteId::m && s && m_prev) {
    const Array top = s->row_maxima();
    attempt("m_prev", [&](Index r, Index x, Index) { return std::fmax((*m_prev)(x), top(r)); });
    attempt("the maximum of the scores",
            [&](Index r, Index x, Index) { return std::fmax((*m_prev)(r), top(x)); });
  } else if (scene.site() == SiteId::alpha && m && m_prev) {
    attempt("m", [&](Index r, Index x, Index) { return std::exp2((*m_prev)(r) - (*m)(x)); });
    attempt("m_prev", [&](Index r, Index x, Index) { return std::exp2((*m_prev)(x) - (*m)(r)); });
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
    const Array pv = product(*p, v ? *v : scene.reference().v_tile(tile));
    attempt("alpha",
            [&](Index r, Index x, Index c) { return (*alpha)(x) * (*o_prev)(r, c) + pv(r, c); });
    attempt("P",
            [&](Index r, Index x, Index c) { return (*alpha)(r) * (*o_prev)(r, c) + pv(x, c); });
  } else if (scene.site() == SiteId::o_final && o && l) {
    const double factor = scene.reference().output_factor().value;
    attempt("l", [&](Index r, Index x, Index c) { return (*o)(r, c) / (*l)(x)*factor; });
  } else if (scene.site() == SiteId::lse && m && l) {
    attempt("m", [&](Index r, Index x, Index) {
      return ((*m)(x) + std::log2((*l)(r))) * std::log(2.0);
    });
    attempt("l", [&](Index r, Index x, Index) {
      return ((*m)(r) + std::log2((*l)(x))) * std::log(2.0);
    });
  }
}

}  // namespace lanescope

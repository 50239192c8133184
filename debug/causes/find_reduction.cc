#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"
#include "debug/causes/reduction.h"

namespace lanescope {
namespace {

using Array = Scene::Array;
using reference::Index;

/// That m stays what it was follows from any part of the row whose scores are below it.
bool stays_alone(const Scene& scene, const std::vector<double>& values) {
  if (scene.site() != SiteId::m || scene.tile() < 0) return false;
  const std::optional<Array> before = scene.before(SiteId::m, scene.tile());
  if (!before) return false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Element& e = scene.elements()[i];
    if (e.wrong && values[i] != (*before)(e.row)) return false;
  }
  return true;
}

void keep_if_good(const Scene& scene, const std::vector<double>& values, const std::string& text,
                  std::optional<Finding>& best) {
  const Fit fit = scene.fit(values);
  if (fit.explained < 0.5 || fit.decisive == 0) return;
  if (best && best->explained + best->consistent >= fit.explained + fit.consistent) return;
  if (stays_alone(scene, values)) return;
  best = Finding{Cause::incomplete_reduction, fit.explained, fit.consistent};
  best->evidence = {text};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Element& e = scene.elements()[i];
    if (!e.wrong || !scene.fits(e.row, e.col, e.got, values[i])) continue;
    best->evidence.push_back("e.g. " + example_text(scene, e));
    return;
  }
}

std::string covers(const Scene& scene) { return std::string(name_of(scene.site())) + " covers "; }

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
                   covers(scene) + "only the columns of " + std::to_string(own_lanes) +
                       " of the row's lanes" +
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
    keep_if_good(scene, scene.by_element(column), covers(scene) + text, best);
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

/// Each lane divided its part of a row of O by a sum of its own: these are parts of l where what
/// they are of it adds up to 1.
void try_divisors(const Scene& scene, Findings& findings) {
  std::map<std::pair<int, std::int64_t>, const Element*> largest;  // of each row and lane
  for (const Element& e : scene.elements()) {
    if (e.holder.lane < 0 || e.unwritten || e.got == 0) continue;
    const Element*& own = largest[{e.row, e.holder.lane}];
    if (!own || std::abs(e.want) > std::abs(own->want)) own = &e;
  }
  std::map<int, std::vector<double>> parts;  // of l, of the lanes of each row
  std::vector<double> values;
  for (const auto& [place, e] : largest) parts[place.first].push_back(e->want / e->got);
  const auto adds_up = [&](int row) {
    const std::vector<double>& own = parts[row];
    const double sum = std::accumulate(own.begin(), own.end(), 0.0);
    return own.size() > 1 && std::abs(sum - 1) < 0.01;
  };
  for (const Element& e : scene.elements()) {
    const auto own = largest.find({e.row, e.holder.lane});
    const bool known = own != largest.end() && adds_up(e.row);
    values.push_back(known ? e.want * own->second->got / own->second->want : e.want);
  }
  const Fit fit = scene.fit(values);
  if (fit.decisive < 16 || fit.explained < 0.9) return;
  Finding finding{Cause::incomplete_reduction, fit.explained, fit.consistent, true};
  finding.evidence = {
      "each lane divides its columns of a row by another sum, and these add up to l: l was not "
      "reduced over the lanes of the row"};
  findings.push_back(finding);
}

/// P relative to a maximum that is not that of the row yet: of the columns of the lane, or of the
/// lanes that it was combined with by then.
void try_early_maximum(const Scene& scene, Findings& findings) {
  const auto s = scene.scores(scene.tile());
  auto m_prev = scene.held(SiteId::m_prev, scene.tile());
  if (!m_prev) m_prev = scene.before(SiteId::m, scene.tile());
  if (!s || !m_prev) return;
  std::optional<Finding> best;
  for (const LaneOf& lane_of : lanes_of_columns(scene, s->cols())) {
    for (int mask = 0; mask < 32; ++mask) {
      Array p(s->rows(), s->cols());
      bool is_part = false;
      for (Index row = 0; row < s->rows(); ++row) {
        std::map<std::int64_t, double> tops;  // of the lanes that agree outside of mask
        const auto& lanes = lane_of[static_cast<std::size_t>(row)];
        const auto group = [&](Index col) { return lanes[static_cast<std::size_t>(col)] & ~mask; };
        for (Index col = 0; col < s->cols(); ++col) {
          double& top = tops.try_emplace(group(col), (*m_prev)(row)).first->second;
          top = std::fmax(top, (*s)(row, col));
        }
        is_part = is_part || tops.size() > 1;
        for (Index col = 0; col < s->cols(); ++col) {
          const double top = tops[group(col)];
          p(row, col) = std::exp2((*s)(row, col) - (std::isfinite(top) ? top : 0));
        }
      }
      if (!is_part) continue;
      keep_if_good(scene, scene.by_element(p),
                   mask == 0 ? "p is relative to the maximum of the lane's own columns: m was read "
                               "before it was reduced over the row's lanes"
                             : "p is relative to the maximum of lanes that differ in the bits " +
                                   std::to_string(mask) +
                                   " alone: m was read before its reduction had ended",
                   best);
    }
  }
  if (best) findings.push_back(*best);
}

}  // namespace

void find_reduction(const Scene& scene, Findings& findings) {
  if (scene.site() == SiteId::p) return try_early_maximum(scene, findings);
  if (scene.site() == SiteId::o_final) return try_divisors(scene, findings);
  const Reduction reduction(scene);
  if (!reduction.possible()) return;
  std::optional<Finding> best;
  for (const LaneOf& lane_of : lanes_of_columns(scene, reduction.cols())) {
    try_lanes(scene, reduction, lane_of, best);
  }
  if (!best || !best->certain()) try_columns(scene, reduction, best);
  if (best) findings.push_back(*best);
}

}  // namespace lanescope

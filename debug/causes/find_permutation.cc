#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"

namespace lanescope {
namespace {

using reference::Index;
using Key = std::pair<std::int64_t, std::int64_t>;  ///< group, place within the group

/// A way to cut the elements of a tile into groups that may have changed places.
struct View {
  const char* what;
  Cause cause = Cause::permuted;
  std::function<Key(const Element&)> of_got, of_want;
  std::int64_t row_groups = 0;  ///< groups that lie side by side in the same rows; 0: unknown
};

std::vector<View> views_of(const Scene& scene) {
  const std::int64_t cols = scene.cols();
  const auto both = [](const char* what, const std::function<Key(const Element&)>& key) {
    return View{what, Cause::permuted, key, key};
  };
  std::vector<View> views;
  if (cols > 1) {
    views.push_back({"tile", Cause::transposed,
                     [](const Element& e) {
                       return Key{0, e.row * 4096 + e.col};
                     },
                     [](const Element& e) {
                       return Key{0, e.col * 4096 + e.row};
                     }});
    views.push_back(both("column", [](const Element& e) { return Key{e.col, e.row}; }));
    views.push_back(both("row", [](const Element& e) { return Key{e.row, e.col}; }));
    views.back().row_groups = 1;
  }
  if (!scene.elements().empty() && scene.elements()[0].holder.reg >= 0) {
    views.push_back(both("register", [](const Element& e) {
      return Key{e.holder.reg, e.holder.warp * 32 + e.holder.lane};
    }));
    views.push_back(both("thread", [](const Element& e) {
      return Key{e.holder.warp * 32 + e.holder.lane, e.holder.reg};
    }));
  }
  if (cols > 1) {
    views.push_back({"8x8 block", Cause::transposed,
                     [=](const Element& e) {
                       return Key{e.row / 8 * 64 + e.col / 8, e.row % 8 * 8 + e.col % 8};
                     },
                     [=](const Element& e) {
                       return Key{e.row / 8 * 64 + e.col / 8, e.col % 8 * 8 + e.row % 8};
                     }});
    views.push_back(both("8x8 block", [](const Element& e) {
      return Key{e.row / 8 * 64 + e.col / 8, e.row % 8 * 8 + e.col % 8};
    }));
    views.back().row_groups = 64;
    views.push_back(both("chunk of 8 columns", [=](const Element& e) {
      return Key{e.row * ((cols + 7) / 8) + e.col / 8, e.col % 8};
    }));
    views.back().row_groups = (cols + 7) / 8;
  }
  return views;
}

using Groups = std::map<std::int64_t, std::map<std::int64_t, const Element*>>;

bool matches(const Scene& scene, const std::map<std::int64_t, const Element*>& got,
             const std::map<std::int64_t, const Element*>& want) {
  int compared = 0;
  for (const auto& [place, e] : got) {
    const auto other = want.find(place);
    if (other == want.end() || e->unwritten) return false;
    if (!scene.fits(other->second->row, other->second->col, e->got, other->second->want))
      return false;
    compared += std::isfinite(e->got) && e->got != 0;
  }
  return compared >= 3;
}

std::optional<Finding> try_view(const Scene& scene, const View& view) {
  Groups got, want;
  for (const Element& e : scene.elements()) {
    const auto [got_group, got_place] = view.of_got(e);
    got[got_group].emplace(got_place, &e);
    const auto [want_group, want_place] = view.of_want(e);
    want[want_group].emplace(want_place, &e);
  }
  int explained = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> map;
  for (const auto& [group, members] : got) {
    const auto wrong = std::count_if(members.begin(), members.end(),
                                     [](const auto& member) { return member.second->wrong; });
    if (wrong == 0) continue;
    int found = 0;
    std::int64_t source = -1;
    for (const auto& [other, wanted] : want) {
      if (other == group && view.cause == Cause::permuted) continue;
      if (!matches(scene, members, wanted)) continue;
      ++found;
      source = other;
    }
    if (found != 1) continue;
    explained += static_cast<int>(wrong);
    map.emplace_back(group, source);
  }
  const double share = static_cast<double>(explained) / scene.wrong_count();
  if (share < 0.5) return std::nullopt;
  Finding finding{view.cause, share};
  // Who changes places leaves its own: what is held twice was rather read from there.
  std::set<std::int64_t> displaced;
  for (const auto& [group, source] : map) displaced.insert(group);
  const bool exchanged = std::all_of(
      map.begin(), map.end(), [&](const auto& pair) { return displaced.contains(pair.second); });
  if (!exchanged) finding.bits += free_number_bits;
  // A tile that is loaded has them from the inputs.
  if (!exchanged && scene.site() <= SiteId::v_smem) finding.cause = Cause::wrong_source;
  // Rows of the outputs, or parts of them, that hold another's, which is in its own place too, are
  // of its operands.
  const bool of_rows =
      view.row_groups > 0 && std::all_of(map.begin(), map.end(), [&](const auto& pair) {
        return pair.first % view.row_groups == pair.second % view.row_groups;
      });
  if (!exchanged && scene.at_end() && of_rows) {
    finding.cause = Cause::operand_of_other_row;
    finding.explained = std::min(finding.explained, 0.97);
    if (!scene.info().is_traced()) finding.stage = Stage::pv;
  }
  // Rows of scores that stand twice were made of the same rows of Q.
  if (!exchanged && scene.site() == SiteId::s && view.row_groups == 1) {
    finding.cause = Cause::operand_of_other_row;
  }
  // Whole rows that change places as they are stored.
  if (exchanged && is_output(scene.site()) && of_rows && view.row_groups == 1) {
    finding.cause = Cause::misplaced;
  }
  if (view.cause == Cause::transposed) {
    finding.evidence = {std::string("row and column are exchanged in the ") + view.what};
  } else {
    finding.evidence = {mapping_text(map, view.what)};
  }
  finding.evidence.push_back("that explains " + share_text(explained, scene.wrong_count()) +
                             " wrong values");
  return finding;
}

/// The elements that a value may belong to, by their values.
class Wanted {
 public:
  explicit Wanted(const Scene& scene) : scene_(scene) {
    for (const Element& e : scene.elements()) {
      if (std::isfinite(e.want) && e.want != 0) sorted_.push_back(&e);
    }
    std::stable_sort(sorted_.begin(), sorted_.end(), below);
  }

  /// Those whose value `got`, found where `e` is, may be.
  auto candidates(const Element& e, double got) const {
    const double reach = scene_.tolerance(e.row, e.col, got);
    Element probe = e;
    probe.want = got - reach;
    const auto begin = std::lower_bound(sorted_.begin(), sorted_.end(), &probe, below);
    probe.want = got + reach;
    return std::pair(begin, std::upper_bound(begin, sorted_.end(), &probe, below));
  }

 private:
  static bool below(const Element* a, const Element* b) { return a->want < b->want; }

  const Scene& scene_;
  std::vector<const Element*> sorted_;
};

/// "(0, -1) 240 times, (8, -1) 120 times": how far off what stands where is, most frequent first.
std::string offsets_text(const std::map<std::pair<int, int>, int>& offsets) {
  std::vector<std::pair<std::pair<int, int>, int>> sorted(offsets.begin(), offsets.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < sorted.size() && i < 4; ++i) {
    const auto& [offset, count] = sorted[i];
    text += (i ? ", (" : "(") + std::to_string(offset.first) + ", " +
            std::to_string(offset.second) + ") " + std::to_string(count) + " times";
  }
  return text + (sorted.size() > 4 ? ", ..." : "");
}

/// Wrong values that are right values of other places, without a rule for which. What is close to a
/// value by chance is told by values that the tile does not hold: a little more, a little less.
std::optional<Finding> try_elements(const Scene& scene) {
  constexpr double decoys[] = {0.96, 0.98, 1.02, 1.04};
  const Wanted wanted(scene);
  double telling = 0;
  int wrong = 0, found = 0, by_chance = 0, one_source = 0, displaced = 0;
  std::set<std::pair<int, int>> sources;
  std::map<std::pair<int, int>, int> offsets;
  std::vector<std::string> examples;
  for (const Element& e : scene.elements()) {
    if (!e.wrong) continue;
    ++wrong;
    if (e.unwritten || !std::isfinite(e.got) || e.got == 0) continue;
    ++telling;
    for (const double decoy : decoys) {
      const auto [begin, end] = wanted.candidates(e, e.got * decoy);
      by_chance += begin != end;
    }
    const auto [begin, end] = wanted.candidates(e, e.got);
    if (begin == end) continue;
    const bool at_home = std::any_of(begin, end, [&](const Element* other) {
      return other->row == e.row && other->col == e.col;
    });
    if (at_home) continue;
    ++found;
    const Element& source = **begin;
    const bool one_place = std::all_of(begin, end, [&](const Element* other) {
      return other->row == source.row && other->col == source.col;
    });
    if (!one_place) continue;
    ++one_source;
    displaced += source.wrong;
    sources.emplace(source.row, source.col);
    ++offsets[{source.row - e.row, source.col - e.col}];
    if (examples.size() >= 3) continue;
    examples.push_back(element_text(name_of(scene.site()), e.row, e.col, scene.cols()) +
                       " holds what belongs to " +
                       element_text(name_of(scene.site()), source.row, source.col, scene.cols()));
  }
  // How likely it is that as many values are found if they are none of the tile's.
  const double chance = std::max(by_chance, 1) / (std::size(decoys) * std::max(telling, 1.0));
  const bool is_exchange = found >= 0.98 * telling && displaced >= 0.9 * one_source &&
                           telling * std::log(chance) < -30 && one_source >= 8 &&
                           10 * std::ssize(sources) >= 9 * std::int64_t{one_source};
  // Outputs are few, and what many of them hold of others is no chance, though some stand twice.
  const bool is_copied = scene.at_end() && found >= 0.98 * telling && one_source >= 16 &&
                         telling * std::log(chance) < -60;
  const double share = is_exchange || is_copied
                           ? static_cast<double>(telling) / wrong
                           : std::min(0.97, static_cast<double>(one_source) / wrong);
  if (share < 0.8 || one_source < 4) return std::nullopt;
  // Who changes places leaves its own: what is right there too, was read from there.
  const bool of_rows =
      scene.at_end() && std::all_of(offsets.begin(), offsets.end(),
                                    [](const auto& entry) { return entry.first.second == 0; });
  const bool stay = displaced < 0.1 * one_source;
  Finding finding{of_rows && stay               ? Cause::operand_of_other_row
                  : of_rows && scene.cols() > 1 ? Cause::misplaced
                                                : Cause::permuted,
                  share, is_exchange || is_copied ? 1.0 : 0.9};
  if (of_rows && stay && !scene.info().is_traced()) finding.stage = Stage::pv;
  finding.evidence = examples;
  finding.evidence.push_back("the source less the place, as (rows, columns): " +
                             offsets_text(offsets));
  finding.evidence.push_back(share_text(found, wrong) +
                             " wrong values are right values of other places, " +
                             share_text(std::lround(chance * 100), 100) + " would be by chance");
  return finding;
}

}  // namespace

void find_permutation(const Scene& scene, Findings& findings) {
  if (scene.wrong_count() < 4) return;
  for (const View& view : views_of(scene)) {
    const std::optional<Finding> finding = try_view(scene, view);
    if (finding) findings.push_back(*finding);
    if (finding && finding->certain()) return;
  }
  if (const std::optional<Finding> finding = try_elements(scene)) findings.push_back(*finding);
}

}  // namespace lanescope

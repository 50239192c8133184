#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"

// Registers of a fragment that change places, or are taken for others, move values by a few rows
// and columns: all alike that are of one row and of one place among the columns that repeat. Of
// narrow types any value alone is found in many places; all of those together are not.

namespace lanescope {
namespace {

/// Columns after which lanes hold the same registers.
constexpr int period = 8;
constexpr std::size_t fewest = 6, most_offsets = 16;

using TilePlace = std::pair<int, int>;  ///< row, column

/// The elements of a tile by their places.
using TilePlaces = std::map<TilePlace, const Element*>;

/// Those of a row whose columns are alike.
using Class = std::vector<const Element*>;

std::vector<Class> classes_of(const TilePlaces& places) {
  std::map<TilePlace, Class> classes;
  for (const auto& [place, e] : places) classes[{place.first, place.second % period}].push_back(e);
  std::vector<Class> all;
  for (const auto& [key, members] : classes) {
    const bool any_wrong = std::ranges::any_of(members, [](const Element* e) { return e->wrong; });
    if (any_wrong) all.push_back(members);
  }
  return all;
}

/// Whether all of a class, times `factor`, are what belongs `offset` further.
bool holds(const Scene& scene, const TilePlaces& places, const Class& members, TilePlace offset,
           double factor) {
  std::size_t telling = 0;
  for (const Element* e : members) {
    const auto source = places.find({e->row + offset.first, e->col + offset.second});
    if (source == places.end() || e->unwritten) return false;
    const Element& from = *source->second;
    if (!scene.fits(from.row, from.col, e->got * factor, from.want)) return false;
    telling += std::isfinite(e->got) && e->got != 0;
  }
  return telling >= fewest;
}

/// The nearest offset at which a class stands elsewhere.
std::optional<TilePlace> offset_of(const Scene& scene, const TilePlaces& places,
                                   const Class& members, double factor) {
  const Element& one = **std::ranges::max_element(
      members, {}, [](const Element* e) { return std::isfinite(e->got) ? std::abs(e->got) : 0; });
  std::optional<TilePlace> nearest;
  const auto way = [](TilePlace offset) {
    return std::abs(offset.first) * 4096 + std::abs(offset.second);
  };
  for (const auto& [place, source] : places) {
    const TilePlace offset = {place.first - one.row, place.second - one.col};
    if (offset == TilePlace{0, 0} || (nearest && way(*nearest) <= way(offset)) ||
        !scene.fits(source->row, source->col, one.got * factor, source->want)) {
      continue;
    }
    if (holds(scene, places, members, offset, factor)) nearest = offset;
  }
  return nearest;
}

}  // namespace

void find_offsets(const Scene& scene, Findings& findings) {
  TilePlaces places;
  for (const Element& e : scene.elements()) places.emplace(TilePlace{e.row, e.col}, &e);
  const std::vector<Class> classes = classes_of(places);
  if (classes.size() < 4) return;
  std::map<TilePlace, int> offsets;
  std::set<TilePlace> displaced, sources;
  std::vector<std::string> examples;
  std::ptrdiff_t explained = 0, wrong = 0, by_chance = 0;
  for (const Class& members : classes) {
    const auto of_it = std::ranges::count_if(members, [](const Element* e) { return e->wrong; });
    wrong += of_it;
    by_chance += offset_of(scene, places, members, 1.03).has_value();
    const std::optional<TilePlace> offset = offset_of(scene, places, members, 1);
    if (!offset) continue;
    explained += of_it;
    ++offsets[*offset];
    for (const Element* e : members) {
      displaced.emplace(e->row, e->col);
      sources.emplace(e->row + offset->first, e->col + offset->second);
    }
    if (examples.size() >= 3) continue;
    const Element& e = *members.front();
    examples.push_back(element_text(name_of(scene.site()), e.row, e.col, scene.cols()) +
                       " holds what belongs to " +
                       element_text(name_of(scene.site()), e.row + offset->first,
                                    e.col + offset->second, scene.cols()) +
                       ", and so does every " + std::to_string(period) + "th column on");
  }
  const double share = static_cast<double>(explained) / static_cast<double>(wrong);
  if (share < 0.98 || offsets.size() > most_offsets || 50 * by_chance > std::ssize(classes)) return;
  // What stands in the place of others without leaving its own was read twice.
  const bool moved = std::ranges::includes(displaced, sources);
  const bool of_rows =
      std::ranges::all_of(offsets, [](const auto& entry) { return entry.first.second == 0; });
  Finding finding{of_rows && moved ? Cause::misplaced : Cause::permuted, share};
  if (of_rows && !moved) finding.cause = Cause::operand_of_other_row;
  finding.bits += 2.0 * static_cast<double>(offsets.size());
  finding.evidence = examples;
  finding.evidence.push_back("that explains " + share_text(explained, wrong) + " wrong values by " +
                             std::to_string(offsets.size()) + " offsets in rows and columns");
  findings.push_back(finding);
}

}  // namespace lanescope

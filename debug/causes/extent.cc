#include "debug/causes/extent.h"

#include <algorithm>
#include <utility>

namespace lanescope {
namespace {

/// What counts the elements of a tile: their rows, columns, lanes or registers.
struct Axis {
  const char* name;
  int (*number)(const Element&);
};

constexpr Axis axes[] = {
    {"rows", [](const Element& e) { return e.row; }},
    {"columns", [](const Element& e) { return e.col; }},
    {"warps", [](const Element& e) { return static_cast<int>(e.holder.warp); }},
    {"lanes", [](const Element& e) { return static_cast<int>(e.holder.lane); }},
    {"registers", [](const Element& e) { return static_cast<int>(e.holder.reg); }},
};

std::vector<Extent> extents_of(const Axis& axis, int count) {
  std::vector<Extent> all;
  const auto number = axis.number;
  const std::string name = axis.name;
  for (int end = 1; end < count; ++end) {
    all.push_back({name + " 0.." + std::to_string(end - 1),
                   [=](const Element& e) { return number(e) < end; }});
    all.push_back({name + " from " + std::to_string(end) + " on",
                   [=](const Element& e) { return number(e) >= end; }});
  }
  for (int bit = 0; 1 << bit < count; ++bit) {
    for (const bool is_set : {true, false}) {
      all.push_back(
          {name + " whose bit " + std::to_string(bit) + " is " + (is_set ? "set" : "not set"),
           [=](const Element& e) { return ((number(e) >> bit & 1) != 0) == is_set; }});
    }
  }
  return all;
}

/// An element, and what an extent says of it.
struct Case {
  const Element* element;
  bool as_given;  ///< it holds what was given for it
};

/// How many cases are exceptions to the extent; nothing where they are more than `allowed`, or it
/// is none.
std::optional<std::size_t> exceptions_to(const Extent& extent, const std::vector<Case>& cases,
                                         std::size_t allowed) {
  std::size_t exceptions = 0, inside = 0;
  for (const Case& c : cases) {
    const bool holds = extent.holds(*c.element);
    inside += holds;
    exceptions += holds ? !c.as_given : c.element->wrong;
    if (exceptions > allowed) return std::nullopt;
  }
  if (inside == 0 || inside == cases.size()) return std::nullopt;
  return exceptions;
}

}  // namespace

std::optional<Extent> extent_of(const Scene& scene, const std::vector<double>& values) {
  std::vector<Case> cases;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Element& e = scene.elements()[i];
    // Where both say the same, it tells nothing.
    if (!e.wrong && scene.fits(e.row, e.col, e.want, values[i])) continue;
    cases.push_back({&e, !e.unwritten && scene.fits(e.row, e.col, e.got, values[i])});
  }
  if (cases.size() < 8) return std::nullopt;
  std::optional<Extent> best;
  std::size_t allowed = cases.size() / 50;
  for (const Axis& axis : axes) {
    int count = 0;
    for (const Case& c : cases) count = std::max(count, axis.number(*c.element) + 1);
    for (Extent& extent : extents_of(axis, count)) {
      const auto exceptions = exceptions_to(extent, cases, allowed);
      if (!exceptions) continue;
      best = std::move(extent);
      if (*exceptions == 0) return best;
      allowed = *exceptions - 1;
    }
  }
  return best;
}

}  // namespace lanescope

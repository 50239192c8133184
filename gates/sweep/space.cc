#include "gates/sweep/space.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "debug/text/nearest.h"
#include "gates/run/run_options.h"
#include "reference/error.h"
#include "reference/inputs.h"

namespace lanescope {
namespace {

// Which side may end at which: those before it.
const std::vector<std::string> side_names = {"d", "b", "h", "hkv", "s", "skv", "splits"};
const std::vector<std::string> choice_names = {"causal", "dtype", "tile", "input"};

bool is_among(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

SweepSpace::End parse_end(const std::string& text, const std::string& side) {
  const auto place = std::find(side_names.begin(), side_names.end(), side);
  if (std::find(side_names.begin(), place, text) != place) return {0, text};
  if (is_among(text, side_names)) {
    throw UsageError("--over " + side + ": " + text + " is drawn after it; write the range of " +
                     text + " in terms of " + side);
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) {
    throw UsageError("--over " + side + ": '" + text + "' is no number from 1 on and no side");
  }
  return {number, {}};
}

SweepSpace::Span parse_span(const std::string& text, const std::string& side) {
  if (text == "*") {
    throw UsageError("--over " + side + "=*: a side needs numbers, " + side + "=1..64 for one");
  }
  const std::size_t dots = text.find("..");
  const SweepSpace::End least = parse_end(text.substr(0, dots), side);
  const SweepSpace::End most = dots == text.npos ? least : parse_end(text.substr(dots + 2), side);
  if (least.side.empty() && most.side.empty() && most.number < least.number) {
    throw UsageError("--over " + side + ": '" + text + "' ends before it begins");
  }
  return {least, most};
}

void add_choice(SweepSpace& space, const std::string& name, const std::string& value) {
  if (name == "dtype") {
    if (value != "*") parse_dtype(value);
    space.dtypes.push_back(value);
  } else if (name == "tile") {
    if (value != "*") parse_tile(value);
    space.tiles.push_back(value);
  } else if (name == "input") {
    const std::vector<std::string> kinds = input_kinds();
    if (value != "*" && !is_among(value, kinds)) {
      throw UsageError("--over input: there is no '" + value + "'" + did_you_mean(value, kinds) +
                       "; there is: " + listed(kinds) + ", *");
    }
    space.inputs.push_back(value);
  } else if (value == "yes") {
    space.causal_alone = true;
  } else {
    throw UsageError("--over causal: '" + value + "': give `causal` for both, or causal=yes");
  }
}

/// "a=1,2,causal" as its names, each with its values; `causal` has none.
std::vector<std::pair<std::string, std::vector<std::string>>> parts_of(const std::string& text) {
  std::vector<std::pair<std::string, std::vector<std::string>>> parts;
  std::istringstream in(text + (text.ends_with(',') ? "," : ""));  // an empty part is one
  for (std::string part; std::getline(in, part, ',');) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    if (equals == part.npos && name != "causal") {
      if (parts.empty() || parts.back().second.empty()) {
        throw UsageError("--over: '" + part + "' is not of the form name=values");
      }
      parts.back().second.push_back(part);  // a further value of the name before
      continue;
    }
    for (const auto& [known, values] : parts) {
      if (known == name) throw UsageError("--over: " + name + " is given twice");
    }
    parts.push_back({name, {}});
    if (equals != part.npos) parts.back().second.push_back(part.substr(equals + 1));
  }
  return parts;
}

std::int64_t side_of(const Cell& cell, const std::string& name) {
  const Problem& p = cell.problem;
  return name == "d"     ? p.d
         : name == "b"   ? p.batch
         : name == "h"   ? p.heads
         : name == "hkv" ? p.heads_kv
         : name == "s"   ? p.len_q
                         : p.len_kv;
}

}  // namespace

SweepSpace parse_space(const std::string& text) {
  if (text.empty()) throw UsageError("--over: names no side");
  SweepSpace space;
  for (const auto& [name, values] : parts_of(text)) {
    if (is_among(name, side_names)) {
      for (const std::string& value : values) space.sides[name].push_back(parse_span(value, name));
    } else if (is_among(name, choice_names)) {
      for (const std::string& value : values) add_choice(space, name, value);
      space.both_masks |= values.empty();
    } else {
      std::vector<std::string> names = side_names;
      names.insert(names.end(), choice_names.begin(), choice_names.end());
      throw UsageError("--over: there is no '" + name + "'" + did_you_mean(name, names) +
                       "; there is: " + listed(names));
    }
  }
  return space;
}

SweepSpace::Bounds bounds_of(const SweepSpace::Span& span, const Cell& cell) {
  const auto value = [&](const SweepSpace::End& end) {
    return end.side.empty() ? end.number : side_of(cell, end.side);
  };
  return {value(span.least), value(span.most)};
}

std::vector<ModuleName> modules_of(const std::vector<ModuleName>& modules,
                                   const SweepSpace& space) {
  const auto allowed = [](const std::vector<std::string>& wanted, const std::string& value,
                          bool first) {
    if (wanted.empty()) return first;
    return wanted.front() == "*" || std::find(wanted.begin(), wanted.end(), value) != wanted.end();
  };
  std::vector<ModuleName> left;
  std::int64_t least_d = 1;
  if (const auto spans = space.sides.find("d"); spans != space.sides.end()) {
    least_d = spans->second.front().least.number;
    for (const SweepSpace::Span& span : spans->second)
      least_d = std::min(least_d, span.least.number);
  }
  for (const ModuleName& m : modules) {
    const auto first = std::find_if(modules.begin(), modules.end(), [&](const ModuleName& other) {
      return other.kernel == m.kernel;
    });
    const bool first_type = m.dtype == first->dtype;
    const bool first_tile = m.br == first->br && m.bc == first->bc;
    if (m.head_dim >= least_d && allowed(space.dtypes, name_of(m.dtype), first_type) &&
        allowed(space.tiles, tile_text(m.br, m.bc), first_tile)) {
      left.push_back(m);
    }
  }
  if (left.empty())
    throw UsageError("sweep: no module takes what --over leaves of types, tiles, d");
  return left;
}

bool allows(const SweepSpace& space, const Cell& cell) {
  const auto side_allows = [&](const char* name, std::int64_t value, std::int64_t usual) {
    const auto spans = space.sides.find(name);
    if (spans == space.sides.end()) return value == usual;
    return std::any_of(spans->second.begin(), spans->second.end(),
                       [&](const SweepSpace::Span& span) {
                         const SweepSpace::Bounds in = bounds_of(span, cell);
                         return in.least <= value && value <= in.most;
                       });
  };
  const Problem& p = cell.problem;
  if (p.heads % p.heads_kv != 0 || (p.causal && !space.both_masks && !space.causal_alone) ||
      (!p.causal && space.causal_alone)) {
    return false;
  }
  return side_allows("b", p.batch, 1) && side_allows("h", p.heads, 1) &&
         side_allows("hkv", p.heads_kv, p.heads) && side_allows("s", p.len_q, 128) &&
         side_allows("skv", p.len_kv, p.len_q) &&
         side_allows("d", p.d, std::min(64, cell.head_dim)) &&
         (cell.splits == 0 || side_allows("splits", cell.splits, 0));
}

}  // namespace lanescope

#include "gates/sweep/conditions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <set>

namespace lanescope {
namespace {

/// A number of a cell.
struct Feature {
  std::string name;
  std::function<std::int64_t(const Cell&)> value;
  bool is_residue = false;
};

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::vector<Feature> features() {
  using Value = std::function<std::int64_t(const Cell&)>;
  const Value s = [](const Cell& c) { return c.problem.len_q; };
  const Value skv = [](const Cell& c) { return c.problem.len_kv; };
  const Value d = [](const Cell& c) { return c.problem.d; };
  const Value h = [](const Cell& c) { return c.problem.heads; };
  const Value hkv = [](const Cell& c) { return c.problem.heads_kv; };
  const Value b = [](const Cell& c) { return c.problem.batch; };
  const Value tiles = [](const Cell& c) { return divided_up(c.problem.len_kv, c.bc); };
  std::vector<Feature> all = {
      {"s", s},
      {"skv", skv},
      {"d", d},
      {"h", h},
      {"hkv", hkv},
      {"b", b},
      {"h / hkv", [](const Cell& c) { return c.problem.heads / c.problem.heads_kv; }},
      {"ceil(skv / Bc)", tiles},
      {"ceil(s / Br)", [](const Cell& c) { return divided_up(c.problem.len_q, c.br); }},
      {"splits", [](const Cell& c) { return c.splits; }},
      {"D", [](const Cell& c) { return c.head_dim; }},
      {"Br", [](const Cell& c) { return c.br; }},
      {"Bc", [](const Cell& c) { return c.bc; }},
      {"s - skv", [](const Cell& c) { return c.problem.len_q - c.problem.len_kv; }},
      {"skv % Bc", [](const Cell& c) { return c.problem.len_kv % c.bc; }, true},
      {"s % Br", [](const Cell& c) { return c.problem.len_q % c.br; }, true},
      {"(skv - s) % Bc",
       [](const Cell& c) { return ((c.problem.len_kv - c.problem.len_q) % c.bc + c.bc) % c.bc; },
       true},
      {"D - d", [](const Cell& c) { return c.head_dim - c.problem.d; }, true},
      {"ceil(skv / Bc) % splits",
       [](const Cell& c) {
         return divided_up(c.problem.len_kv, c.bc) % std::max<std::int64_t>(c.splits, 1);
       },
       true},
      {"h / hkv * s",
       [](const Cell& c) { return c.problem.heads / c.problem.heads_kv * c.problem.len_q; }},
      {"ceil(ceil(skv / Bc) / splits)",
       [](const Cell& c) {
         return divided_up(divided_up(c.problem.len_kv, c.bc), std::max<std::int64_t>(c.splits, 1));
       }},
  };
  const auto add_residues = [&](const char* name, const Value& of, std::initializer_list<int> by) {
    for (const int m : by) {
      all.push_back({std::string(name) + " % " + std::to_string(m),
                     [of, m](const Cell& c) { return of(c) % m; }, true});
    }
  };
  add_residues("skv", skv, {2, 4, 8, 16, 32});
  add_residues("s", s, {2, 4, 8, 16, 32});
  add_residues("d", d, {2, 8, 16});
  add_residues("h", h, {2, 3, 4});
  add_residues("hkv", hkv, {2});
  add_residues("b", b, {2});
  add_residues("ceil(skv / Bc)", tiles, {2, 3, 4});
  all.push_back({"h / hkv % 2",
                 [](const Cell& c) { return c.problem.heads / c.problem.heads_kv % 2; }, true});
  return all;
}

/// Gathers conditions, of those that hold of the same cells the cheapest.
class Gatherer {
 public:
  explicit Gatherer(const std::vector<Cell>& cells) : cells_(cells) {}

  void add(const std::string& text, double bits, const std::function<bool(std::size_t)>& holds) {
    CellSet set((cells_.size() + 63) / 64);
    std::size_t holding = 0;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!holds(i)) continue;
      set[i / 64] |= std::uint64_t{1} << i % 64;
      ++holding;
    }
    if (holding == 0 || holding == cells_.size()) return;
    const auto known = places_.find(set);
    if (known == places_.end()) {
      places_.emplace(set, found.size());
      found.push_back({text, bits, std::move(set)});
    } else if (bits < found[known->second].bits) {
      found[known->second].text = text;
      found[known->second].bits = bits;
    }
  }

  std::vector<Condition> found;

 private:
  const std::vector<Cell>& cells_;
  std::map<CellSet, std::size_t> places_;
};

void add_names(const std::vector<Cell>& cells, double bits, Gatherer& gatherer) {
  const auto add = [&](const char* name, const auto& value) {
    std::set<std::string> values;
    for (const Cell& cell : cells) values.insert(value(cell));
    const double own = bits + std::log2(2.0 * static_cast<double>(values.size()));
    for (const std::string& one : values) {
      const auto is = [&](std::size_t i) { return value(cells[i]) == one; };
      gatherer.add(std::string(name) + " = " + one, own, is);
      if (values.size() < 3) continue;
      gatherer.add(std::string(name) + " != " + one, own, [&](std::size_t i) { return !is(i); });
    }
  };
  add("dtype", [](const Cell& c) { return std::string(name_of(c.dtype)); });
  add("tile", [](const Cell& c) { return tile_text(c.br, c.bc); });
  add("input", [](const Cell& c) { return c.input; });
  add("gate", [](const Cell& c) { return std::string(name_of(c.gate)); });
  add("backend", [](const Cell& c) { return c.backend; });
  const auto causal = [&](std::size_t i) { return cells[i].problem.causal; };
  gatherer.add("causal", bits, causal);
  gatherer.add("not causal", bits, [&](std::size_t i) { return !causal(i); });
}

/// Comparisons of one number: with 0 first, which says most; then with all that it comes to.
void add_comparisons(const Feature& feature, const std::vector<Cell>& cells, double bits,
                     Gatherer& gatherer) {
  std::vector<std::int64_t> values;
  for (const Cell& cell : cells) values.push_back(feature.value(cell));
  const std::set<std::int64_t> distinct(values.begin(), values.end());
  const auto add = [&](const char* sign, std::int64_t than, double own, auto compare) {
    std::string text = feature.name + " " + sign + " " + std::to_string(than);
    if (feature.name == "s - skv" && than == 0) text = std::string("s ") + sign + " skv";
    if (feature.name == "D - d" && than == 0) text = std::string("d ") + sign + " D";
    gatherer.add(text, own, [&](std::size_t i) { return compare(values[i], than); });
  };
  const bool has_zero = feature.is_residue || feature.name == "s - skv";
  if (has_zero) {
    add("=", 0, bits + 1, std::equal_to<>());
    add("!=", 0, bits + 1, std::not_equal_to<>());
  }
  if (feature.name == "s - skv") {
    add(">", 0, bits + 1, std::greater<>());
    add("<", 0, bits + 1, std::less<>());
  }
  const double own = bits + 2 + std::log2(static_cast<double>(distinct.size()));
  for (const std::int64_t value : distinct) {
    add(">=", value, own, std::greater_equal<>());
    add("<=", value, own, std::less_equal<>());
    add("=", value, own, std::equal_to<>());
    if (distinct.size() <= 16) add("!=", value, own, std::not_equal_to<>());
  }
}

}  // namespace

std::int64_t count(const CellSet& set) {
  std::int64_t sum = 0;
  for (const std::uint64_t word : set) sum += std::popcount(word);
  return sum;
}

CellSet both(const CellSet& a, const CellSet& b) {
  CellSet set(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) set[i] = a[i] & b[i];
  return set;
}

CellSet without(const CellSet& a, const CellSet& b) {
  CellSet set(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) set[i] = a[i] & ~b[i];
  return set;
}

std::vector<Condition> conditions_on(const std::vector<Cell>& cells) {
  const std::vector<Feature> numbers = features();
  const double bits = std::log2(static_cast<double>(numbers.size() + 8));
  Gatherer gatherer(cells);
  add_names(cells, bits, gatherer);
  for (const Feature& feature : numbers) add_comparisons(feature, cells, bits, gatherer);
  return std::move(gatherer.found);
}

}  // namespace lanescope

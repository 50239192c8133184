#include "gates/run/locate_dependence.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace lanescope {
namespace {

bool has_trait(const RunTraits& run, const std::string& trait) {
  return std::find(run.traits.begin(), run.traits.end(), trait) != run.traits.end();
}

/// Whether the runs that have all of `traits` are the wrong ones.
bool tells(const std::vector<RunTraits>& runs, const std::vector<std::string>& traits) {
  return std::all_of(runs.begin(), runs.end(), [&](const RunTraits& run) {
    const bool all = std::all_of(traits.begin(), traits.end(),
                                 [&](const std::string& trait) { return has_trait(run, trait); });
    return all != run.match;
  });
}

std::size_t difference(const RunTraits& a, const RunTraits& b) {
  const auto lacking = [](const RunTraits& from, const RunTraits& in) {
    return static_cast<std::size_t>(
        std::count_if(from.traits.begin(), from.traits.end(),
                      [&](const std::string& trait) { return !has_trait(in, trait); }));
  };
  return lacking(a, b) + lacking(b, a);
}

}  // namespace

std::vector<std::string> traits_of(const RunOptions& options, const Problem& p,
                                   const Module& module) {
  const std::string br = std::to_string(module.br), bc = std::to_string(module.bc);
  std::vector<std::string> traits;
  const auto add = [&](bool holds, const std::string& text) {
    if (holds) traits.push_back(text);
  };
  add(p.causal, "--causal");
  add(p.len_kv > module.bc, "skv > " + bc + " (several K/V tiles)");
  add(p.len_kv % module.bc != 0, "skv % " + bc + " != 0 (a ragged tail of keys)");
  add(p.len_q > module.br, "s > " + br + " (several tiles of rows)");
  add(p.len_q % module.br != 0, "s % " + br + " != 0 (a ragged tail of rows)");
  add(p.len_kv > 4 * module.bc, "skv > " + std::to_string(4 * module.bc) + " (many K/V tiles)");
  add(p.len_q < p.len_kv, "s < skv");
  add(p.len_q > p.len_kv, "s > skv");
  add(p.heads > 1, "h > 1");
  add(p.heads_kv < p.heads, "hkv < h (grouped heads)");
  add(p.batch > 1, "b > 1");
  add(p.d < module.head_dim, "d < " + std::to_string(module.head_dim));
  add(p.d > 64, "d > 64");
  add(!options.dtype.empty(), "--dtype " + options.dtype);
  add(options.input != "random", "--input " + options.input);
  add(options.splits.value_or(1) > 1, "--splits > 1");
  add(!options.tile_shape.empty(), "--tile-shape " + options.tile_shape);
  return traits;
}

std::string dependence_text(const std::vector<RunTraits>& runs) {
  const RunTraits *nearest_right = nullptr, *nearest_wrong = nullptr;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const RunTraits& wrong : runs) {
    for (const RunTraits& right : runs) {
      if (wrong.match || !right.match || difference(wrong, right) >= least) continue;
      least = difference(wrong, right);
      nearest_right = &right;
      nearest_wrong = &wrong;
    }
  }
  if (!nearest_wrong) return {};
  const std::vector<std::string>& traits = nearest_wrong->traits;
  std::vector<std::vector<std::string>> rules;
  for (const std::string& trait : traits) rules.push_back({trait});
  for (std::size_t i = 0; i < traits.size(); ++i) {
    for (std::size_t j = i + 1; j < traits.size(); ++j) rules.push_back({traits[i], traits[j]});
  }
  for (const std::vector<std::string>& rule : rules) {
    if (!tells(runs, rule)) continue;
    std::string text = "wrong with " + rule[0];
    if (rule.size() > 1) text += " and " + rule[1];
    return text + ", right without, in " + std::to_string(runs.size()) + " runs";
  }
  return "right with " + nearest_right->options + ", wrong with " + nearest_wrong->options;
}

}  // namespace lanescope

#include "gates/run/locate_dependence.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <sstream>

namespace lanescope {
namespace {

bool has_trait(const RunTraits& run, const std::string& trait) {
  return std::find(run.traits.begin(), run.traits.end(), trait) != run.traits.end();
}

/// A trait that a run has, or lacks.
struct TraitCondition {
  std::string trait;
  bool lacks;
  bool holds(const RunTraits& run) const { return has_trait(run, trait) != lacks; }
  std::string text() const { return (lacks ? "without " : "with ") + trait; }
};

/// Whether the runs of which all of `conditions` hold are the wrong ones.
bool tells(const std::vector<RunTraits>& runs, const std::vector<TraitCondition>& conditions) {
  return std::all_of(runs.begin(), runs.end(), [&](const RunTraits& run) {
    const bool all = std::all_of(conditions.begin(), conditions.end(),
                                 [&](const TraitCondition& one) { return one.holds(run); });
    return all != run.match;
  });
}

/// Whether the runs in which one of the two holds are the wrong ones.
bool either_tells(const std::vector<RunTraits>& runs, const std::string& one,
                  const std::string& other) {
  return std::all_of(runs.begin(), runs.end(), [&](const RunTraits& run) {
    return (has_trait(run, one) || has_trait(run, other)) != run.match;
  });
}

/// The sides of "b=1,s=64,d=64"; of another word, itself.
std::vector<std::string> parts_of(const std::string& word) {
  std::vector<std::string> parts;
  std::istringstream sides(word);
  for (std::string side; std::getline(sides, side, ',');) parts.push_back(side);
  return parts;
}

/// The options of a run, those words and sides of a shape left out that `other` has too:
/// "--shape skv=192 --causal".
std::string own_words(const std::string& options, const std::string& other) {
  std::istringstream words(options), others(other);
  std::vector<std::string> known;
  for (std::string word; others >> word;) {
    for (const std::string& part : parts_of(word)) known.push_back(part);
  }
  std::string text, option;
  for (std::string word; words >> word;) {
    std::string own;
    for (const std::string& part : parts_of(word)) {
      if (std::find(known.begin(), known.end(), part) != known.end()) continue;
      own += (own.empty() ? "" : ",") + part;
    }
    if (word.starts_with("--")) option = word;
    if (own.empty()) continue;
    if (!option.empty() && own != option) text += (text.empty() ? "" : " ") + option;
    text += (text.empty() ? "" : " ") + own;
    option.clear();
  }
  return text;
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
  add(p.len_kv % module.bc != 0, "skv % " + bc + " != 0 (a ragged tail of keys)");
  add(p.len_kv > module.bc, "skv > " + bc + " (several K/V tiles)");
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
  std::vector<TraitCondition> conditions;
  for (const std::string& trait : nearest_wrong->traits) conditions.push_back({trait, false});
  for (const RunTraits& run : runs) {
    for (const std::string& trait : run.traits) {
      const bool known = std::any_of(conditions.begin(), conditions.end(),
                                     [&](const TraitCondition& one) { return one.trait == trait; });
      if (!known) conditions.push_back({trait, true});
    }
  }
  // What is asked for goes before what the sizes come to.
  std::stable_partition(conditions.begin(), conditions.end(),
                        [](const TraitCondition& one) { return one.trait.starts_with("--"); });
  const std::string in_runs = ", in " + std::to_string(runs.size()) + " runs";
  for (const TraitCondition& one : conditions) {
    if (!tells(runs, {one})) continue;
    return (one.lacks ? "right with " + one.trait + ", wrong without"
                      : "wrong with " + one.trait + ", right without") +
           in_runs;
  }
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    for (std::size_t j = i + 1; j < conditions.size(); ++j) {
      const TraitCondition &one = conditions[i], &other = conditions[j];
      if (!tells(runs, {one, other})) continue;
      const bool alike = one.lacks == other.lacks;
      return "wrong " + one.text() + " and " + (alike ? other.trait : other.text()) +
             ", right otherwise" + in_runs;
    }
  }
  for (const TraitCondition& one : conditions) {
    for (const TraitCondition& other : conditions) {
      if (&one >= &other || !either_tells(runs, one.trait, other.trait)) continue;
      return "wrong with " + one.trait + " or with " + other.trait + ", right otherwise" + in_runs;
    }
  }
  // No short rule: what the two that are most alike do not share.
  const TraitCondition* const deciding =
      least == 1 ? &*std::find_if(conditions.begin(), conditions.end(),
                                  [&](const TraitCondition& one) {
                                    return one.holds(*nearest_wrong) && !one.holds(*nearest_right);
                                  })
                 : nullptr;
  if (deciding) {
    return (deciding->lacks ? "right with " + deciding->trait + ", wrong without"
                            : "wrong with " + deciding->trait + ", right without") +
           ", all else alike";
  }
  const std::string right = own_words(nearest_right->options, nearest_wrong->options);
  const std::string wrong = own_words(nearest_wrong->options, nearest_right->options);
  if (right.empty()) return "wrong with " + wrong + ", right without";
  if (wrong.empty()) return "right with " + right + ", wrong without";
  return "right with " + right + ", wrong with " + wrong;
}

void tell_low_scores(const std::vector<RunTraits>& runs, bool traced, Diagnosis& diagnosis) {
  const bool alone = std::ranges::all_of(runs, [](const RunTraits& run) {
    return run.match || run.options.find(" --input low") != std::string::npos;
  });
  if (!alone || runs.size() < 2 || diagnosis.sure() || !diagnosis.memory.empty()) return;
  if (traced && diagnosis.first && diagnosis.first->stage == Stage::combine) return;
  diagnosis.cause = Cause::wrong_formula;
  if (diagnosis.first && !traced) diagnosis.first->stage = Stage::softmax;
  diagnosis.evidence.emplace_back(
      "of scores far below 0 alone: m does not go as low as they do, as where it starts at 0");
}

void add_dependence(const std::vector<RunTraits>& runs, Location& location) {
  Diagnosis& diagnosis = *location.diagnosis;
  const std::string text = dependence_text(runs);
  if (!text.empty()) diagnosis.evidence.push_back(text);
  std::optional<Recurrence> own_recurrence = location.recurrence;
  if (diagnosis.softmax) {
    if (!own_recurrence) own_recurrence.emplace();
    own_recurrence->merge(*diagnosis.softmax);
  }
  if (!own_recurrence) return;
  const auto& first = diagnosis.first;
  const std::string own =
      first ? std::string(name_of(first->stage)) + " / " + name_of(first->site) + ":" : "";
  for (const std::string& line : own_recurrence->differences()) {
    if (first && line.starts_with(own)) continue;  // that is the fault
    diagnosis.evidence.push_back("apart from that, the recurrence differs: " + line);
  }
}

}  // namespace lanescope

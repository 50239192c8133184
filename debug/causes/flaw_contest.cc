#include "debug/causes/flaw_contest.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "debug/causes/flaw_families.h"
#include "debug/causes/output_variants.h"

namespace lanescope {
namespace {

/// Without the numbers that may be others in another problem, "1 key" there "2 keys". How many
/// splits there are stays.
std::string words_of(const std::string& text) {
  const auto is_digit = [&](std::size_t i) {
    return std::isdigit(static_cast<unsigned char>(text[i])) != 0;
  };
  std::string words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t end = i;
    while (end < text.size() && is_digit(end)) ++end;
    if (end == i || text.compare(end, 7, " splits") == 0) {
      words += text[i];
    } else {
      i = end - 1;
    }
  }
  for (std::size_t at; (at = words.find(" keys")) != words.npos;) words.replace(at, 5, " key");
  return words;
}

/// Words without what splits have each: where that is as many keys as whole tiles it is not said.
std::string without_shares(std::string words) {
  const std::string share = " ( key each)";
  const std::size_t at = words.find(share);
  return at == words.npos ? words : words.erase(at, share.size());
}

/// Words without the order of the tiles, which one alone does not have.
std::string without_order(std::string words) {
  const std::string order = " (tiles from the last to the first)";
  const std::size_t at = words.find(order);
  return at == words.npos ? words : words.erase(at, order.size());
}

/// Whether a flaw is of a number of splits, which some kernels make of the problem.
bool is_of_splits(const std::string& text) { return text.find(" splits") != text.npos; }

/// Words without how many splits there are.
std::string without_count(std::string words) {
  const std::size_t end = words.find(" splits");
  if (end == words.npos) return words;
  std::size_t at = end;
  while (at > 0 && std::isdigit(static_cast<unsigned char>(words[at - 1])) != 0) --at;
  return words.erase(at, end - at);
}

/// Thousands of texts are asked for again in every problem.
const FlawNames& names_of(const std::string& text) {
  thread_local std::unordered_map<std::string, FlawNames> known;
  const auto [entry, is_new] = known.try_emplace(text);
  if (is_new) {
    FlawNames& names = entry->second;
    names.words = words_of(text);
    names.kind = without_count(without_shares(names.words));
    names.kind_in_any_order = without_count(without_shares(without_order(names.words)));
  }
  return entry->second;
}

/// Rows of each side that are looked at: the ends and some between.
std::vector<std::int64_t> spread(std::int64_t count, std::int64_t wanted) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < std::min(count, wanted); ++i) {
    numbers.push_back(wanted >= count ? i : i * (count - 1) / (wanted - 1));
  }
  return numbers;
}

int missed_by(const FlawTrial& trial) {
  return trial.decisive - trial.explained + trial.right - trial.predicted;
}

}  // namespace

FlawContest::FlawContest(const Dump& dump)
    : dump_(dump), inputs_(dump), flaws_(known_flaws(dump.info)) {
  known_ = flaws_.size();
  for (const std::vector<Flaw>& more : {flaws_of_passes(flaws_), composed_flaws(dump.info)}) {
    flaws_.insert(flaws_.end(), more.begin(), more.end());
  }
  for (std::size_t i = 0; i < flaws_.size(); ++i) {
    by_text_.emplace(flaws_[i].text, i);
    names_.push_back(&names_of(flaws_[i].text));
    by_words_.emplace(names_.back()->words, i);
  }
  const Problem& p = dump.info.problem;
  for (const std::int64_t batch : spread(p.batch, 2)) {
    for (const std::int64_t head : spread(p.heads, 3)) {
      for (const std::int64_t query : spread(p.len_q, 12)) samples_.push_back({batch, head, query});
    }
  }
}

std::optional<Flaw> FlawContest::find(const std::string& text) const {
  const std::string_view between = besides;
  if (const std::size_t at = text.find(between); at != text.npos) {
    const auto one = find(text.substr(0, at)), other = find(text.substr(at + between.size()));
    return one && other ? std::optional(both_of(*one, *other)) : std::nullopt;
  }
  const auto same = by_text_.find(text);
  if (same != by_text_.end()) return flaws_[same->second];
  const std::string& words = names_of(text).words;
  auto like = by_words_.find(words);
  if (like == by_words_.end()) like = by_words_.find(without_order(words));
  return like == by_words_.end() ? std::nullopt : std::optional(flaws_[like->second]);
}

const std::vector<OutputRow>& FlawContest::rows_of(const Divergence& first) {
  if (rows_.empty()) rows_ = output_rows(Scene(dump_, first), std::nullopt);
  return rows_;
}

std::optional<Finding> FlawContest::beside(const Finding& finding, const Divergence& first) {
  const std::optional<Flaw> one = find(finding.flaw);
  if (!one || finding.in_part) return std::nullopt;
  const std::vector<OutputRow>& rows = rows_of(first);
  std::vector<OutputRow> left = rows;
  std::erase_if(left,
                [&](const OutputRow& row) { return try_flaw(*one, inputs_, {row}).explains(); });
  if (!says_which(left)) return std::nullopt;
  // What the first bug leaves may be off by chance: a second has to give most of it.
  const FlawTrial alone = try_flaw(*one, inputs_, rows);
  const bool is_near = alone.wins();
  const Flaw* best = nullptr;
  FlawTrial of_best;
  bool only = true;
  for (std::size_t i = 0; i < known_; ++i) {
    const Flaw& other = flaws_[i];
    if (best && other.choices > best->choices) continue;
    const FlawTrial trial = try_flaw(both_of(*one, other), inputs_, rows);
    // What explains all by itself stands for the first bug, not beside it.
    if (!trial.wins() || try_flaw(other, inputs_, rows).wins()) continue;
    if (is_near && 3 * missed_by(trial) > missed_by(alone)) continue;
    const bool shorter = !best || other.choices < best->choices;
    only = shorter || (only && other.cause == best->cause && other.stage == best->stage);
    if (!shorter) continue;
    best = &other;
    of_best = trial;
  }
  if (!best) return std::nullopt;
  Finding found{best->cause, only ? 1 : 0.97};
  found.stage = best->stage;
  found.evidence = {"with the first bug, the outputs are those of attention " + best->text,
                    std::to_string(of_best.explained) + " of " + std::to_string(of_best.decisive) +
                        " wrong values and " + std::to_string(of_best.predicted) + " of " +
                        std::to_string(of_best.right) + " others follow from both"};
  return found;
}

bool FlawContest::explains(const Finding& finding, const Divergence& first) {
  const std::vector<OutputRow>& rows = rows_of(first);
  if (explains_plainly(finding, rows)) return true;
  const auto variants = variants_of_one_output(inputs_, rows);
  const bool explained = std::any_of(variants.begin(), variants.end(), [&](const Recurrence& way) {
    go_by(way, inputs_);
    return explains_plainly(finding, judged_by(inputs_, rows));
  });
  go_by({}, inputs_);
  return explained;
}

int FlawContest::missed(const Finding& finding, const Divergence& first) {
  const std::optional<Flaw> flaw = find(finding.flaw);
  if (!flaw || finding.in_part) return 0;
  return missed_by(try_flaw(*flaw, inputs_, rows_of(first)));
}

bool FlawContest::explains_plainly(const Finding& finding, const std::vector<OutputRow>& rows) {
  const auto fits = [&](const Flaw& flaw) {
    const FlawTrial trial = try_flaw(flaw, inputs_, rows);
    return trial.wins() || trial.is_whole() || trial.allows() ||
           (trial.explains() && !trial.part(dump_.info.br, dump_.info.problem.d).empty());
  };
  if (finding.other_cause) {
    const std::optional<Flaw> both = find(finding.flaw);
    return both && fits(*both);
  }
  if (const auto same = by_text_.find(finding.flaw); same != by_text_.end()) {
    const bool fits_here = fits(flaws_[same->second]);
    if (fits_here || !is_of_splits(finding.flaw)) return fits_here;
  }
  const FlawNames& names = names_of(finding.flaw);
  const bool has_order = by_words_.contains(names.words);
  const auto kind_of = [&](const FlawNames& own) -> const std::string& {
    return has_order ? own.kind : own.kind_in_any_order;
  };
  for (std::size_t i = 0; i < flaws_.size(); ++i) {
    if (kind_of(*names_[i]) == kind_of(names) && fits(flaws_[i])) return true;
  }
  if (has_order) return false;
  const std::vector<Flaw> learned = learned_flaws(inputs_, rows);
  return std::any_of(learned.begin(), learned.end(),
                     [&](const Flaw& flaw) { return flaw.cause == finding.cause && fits(flaw); });
}

std::vector<PlannedRow> FlawContest::outputs_with(const Flaw* flaw) {
  std::vector<PlannedRow> rows;
  for (const Sample& at : samples_) {
    RowPlan plan = inputs_.right_plan(at.batch, at.head, at.query);
    if (flaw) flaw->edit(plan);
    rows.push_back(inputs_.carry_out(plan));
  }
  return rows;
}

bool FlawContest::are_others(const std::vector<PlannedRow>& one,
                             const std::vector<PlannedRow>& other) const {
  // What O is rounded to and the terms' weights are: whatever is off by more is seen.
  const double unit = std::ldexp(1.0, 2 - format_of(dump_.info.dtype).fraction_bits);
  const auto is_other = [&](double a, double b, double magnitude) {
    return std::isnan(a) != std::isnan(b) || std::abs(a - b) > unit * magnitude;
  };
  for (std::size_t row = 0; row < one.size(); ++row) {
    for (std::size_t col = 0; col < one[row].o.size(); ++col) {
      if (is_other(one[row].o[col], other[row].o[col],
                   std::max(one[row].magnitude[col], other[row].magnitude[col]))) {
        return true;
      }
    }
    if (owes_lse(dump_) && one[row].lse != other[row].lse &&
        is_other(one[row].lse, other[row].lse, 0x1p-6 * (1 + std::abs(other[row].lse)))) {
      return true;
    }
  }
  return false;
}

bool FlawContest::shows(const Finding& finding) {
  const std::optional<Flaw> flaw = find(finding.flaw);
  return flaw && !finding.in_part && are_others(outputs_with(&*flaw), outputs_with(nullptr));
}

bool FlawContest::differ(const Finding& one, const Finding& other) {
  const std::optional<Flaw> a = find(one.flaw), b = find(other.flaw);
  return a && b && are_others(outputs_with(&*a), outputs_with(&*b));
}

}  // namespace lanescope

#include "gates/run/judge_terms.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "gates/run/term_judging.h"

namespace lanescope {

TermJudgement TermJudging::judge() {
  TermJudgement judgement;
  judgement.outline = all_.outline;
  judgement.lines = stage_lines();
  judgement.weighs =
      std::ranges::all_of(wrong_, [this](std::int64_t row) { return all_.weighed.contains(row); });
  judgement.sees_others = sees_others();
  const auto found = first_conflict();
  if (found && found->conflict != Conflict::odd) {
    judgement.fault = of_conflict(*found);
  } else {
    judgement.fault = of_outputs();
    if (judgement.fault) {
      judgement.fault->of_outputs = true;
      judgement.fault->meets_zeros = all_.weights_of_zero > 0;
    }
    if (found && !judgement.fault) judgement.fault = of_conflict(*found);
    judgement.is_whole = !judgement.fault && are_whole();
  }
  const bool is_open = !judgement.is_whole && !(judgement.fault && judgement.fault->of_place);
  if (auto placed = is_open ? of_places() : std::nullopt) judgement.fault = std::move(placed);
  return judgement;
}

/// Whether most wrong rows that do not see all keys have others in O.
bool TermJudging::sees_others() const {
  std::int64_t rows = 0, others = 0;
  for (const std::int64_t row : wrong_) {
    if (count(visible(row)) == p_.len_kv) continue;
    bool extra = false;
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      extra = extra || (!lse && !without(output.term.set, visible(row)).empty());
    });
    ++rows;
    others += extra;
  }
  return 2 * others > rows;
}

/// Whether products of a score go into what is no score: as large as a weight at most, it may be
/// within what outputs may be off by.
bool TermJudging::adds_to_weights(const Provenance::Meeting& meeting) {
  return meeting.conflict == Conflict::partial_of_other &&
         most_of(meeting.samples, [](const Term& x, const Term& y) { return x.kind != y.kind; });
}

std::optional<TermJudging::Found> TermJudging::first_conflict() const {
  std::map<Conflict, std::set<std::int64_t>> rows;  // that have it
  std::map<Conflict, std::set<std::int64_t>> which;
  std::set<std::int64_t> known;
  bool sums_too = false, weights_too = false;
  for (const auto* site : {&all_.o, &all_.lse}) {
    for (const auto& [row, outputs] : *site) {
      for (const Provenance::Output& output : outputs) {
        // What else came in, the kernel alone knows: bytes that nobody wrote, or that are no
        // input's.
        if (output.term.kind != "-" && output.term.kind != "unknown") known.insert(row);
        for (const std::int64_t meeting : output.meetings) {
          const Conflict conflict = all_.meetings.at(meeting).conflict;
          sums_too = sums_too || conflict == Conflict::sum_of_other_row;
          weights_too = weights_too || adds_to_weights(all_.meetings.at(meeting));
          // Others come of another.
          if (all_.meetings.at(meeting).fresh == 0) continue;
          if (conflict != Conflict::odd) known.insert(row);
          rows[conflict].insert(row);
          if (is_wrong_.contains(row)) which[conflict].insert(meeting);
        }
      }
    }
  }
  std::optional<Found> best;
  for (const auto& [conflict, in] : rows) {
    const auto of_wrong = static_cast<double>(std::count_if(
        in.begin(), in.end(), [&](std::int64_t row) { return is_wrong_.contains(row); }));
    const double of_right = static_cast<double>(in.size()) - of_wrong;
    const auto all_wrong = static_cast<double>(std::count_if(
        known.begin(), known.end(), [&](std::int64_t row) { return is_wrong_.contains(row); }));
    const double right = static_cast<double>(known.size()) - all_wrong;
    const double share = of_wrong / std::max(all_wrong, 1.0);
    // What right rows have as well is none; a few may be right by chance. Factors are often 1,
    // those of other rows, too: but where rows share a maximum, nobody takes one from another.
    const bool by_chance =
        conflict == Conflict::factor_of_other_row && !rows.contains(Conflict::maximum_of_other_row);
    const bool is_small = conflict == Conflict::partial_of_other && weights_too;
    const bool tell = right > 0.1 * all_wrong && !by_chance && !is_small;
    if (share < 0.1 || (tell && of_right / right > 0.5 * share)) continue;
    // What half of the wrong rows have does not come of what they meet later.
    if (best && (best->share >= 0.5 || share < 1.5 * best->share)) continue;
    if (conflict == Conflict::odd && best) continue;
    best.emplace();
    best->conflict = conflict;
    best->share = share;
    std::copy_if(in.begin(), in.end(), std::back_inserter(best->rows),
                 [&](std::int64_t row) { return is_wrong_.contains(row); });
    best->sums_too = sums_too;
    best->outputs_too = rows.contains(Conflict::output_of_other_unit);
    best->output_keys_twice = rows.contains(Conflict::output_key_twice);
    for (const std::int64_t meeting : which[conflict]) add(all_.meetings.at(meeting), *best);
  }
  return best;
}

void TermJudging::add(const Provenance::Meeting& meeting, Found& found) const {
  found.count += meeting.count;
  if (!found.first) found.first = &meeting;
  if (std::find(found.lines.begin(), found.lines.end(), meeting.line) == found.lines.end()) {
    found.lines.push_back(meeting.line);
  }
  for (int side = 0; side < 2; ++side) {
    for (const auto& [road, count] : meeting.roads[side]) found.roads[side][road] += count;
    found.ordered[side] += meeting.ordered[side];
    found.disordered[side] += meeting.disordered[side];
  }
  for (const auto& sample : meeting.samples) {
    const auto& [x, y] = sample;
    if (is_wrong_.contains(x.row) || is_wrong_.contains(y.row) || x.is_input()) {
      found.samples.push_back(sample);
    }
  }
}

/// A tile that lies in another way than it is taken: what becomes of the numbers, outputs may not
/// say.
std::optional<TermFault> TermJudging::of_places() const {
  for (const Conflict conflict :
       {Conflict::column_of_other, Conflict::maximum_of_other_row, Conflict::sum_of_other_row,
        Conflict::value_of_other_key, Conflict::output_of_other_column}) {
    Found found;
    found.conflict = conflict;
    found.share = 1;
    for (const auto& [number, meeting] : all_.meetings) {
      if (meeting.conflict == conflict && meeting.fresh > 0) add(meeting, found);
    }
    if (!found.first) continue;
    TermFault fault = of_conflict(found);
    if (fault.of_place) return fault;
  }
  return std::nullopt;
}

TermFault TermJudging::of_conflict(const Found& found) const {
  TermFault fault;
  fault.share = found.share;
  fault.lines = found.lines;
  if (found.lines.size() > 2) fault.lines.resize(2);
  std::string what;
  explain(found, fault, what);
  fault.of_place = explain_place(found, fault, what);
  std::string line = found.first->line + ": " + what;
  if (!found.samples.empty()) {
    const auto& [x, y] = found.samples.front();
    line += "; for example " + term_text(x) + " and " + term_text(y);
  }
  fault.evidence.push_back(line + " (" + std::to_string(found.count) + " times, first in block " +
                           std::to_string(found.first->block) + ", warp " +
                           std::to_string(found.first->warp) + ", lane " +
                           std::to_string(found.first->lane) + ")");
  if (!fault.of_place) tell_disorder(found, fault);
  tell_lines(found, fault);
  return fault;
}

TermJudgement judge_terms(const Provenance& provenance, const Problem& problem, std::int64_t tile,
                          const std::vector<std::int64_t>& wrong) {
  return TermJudging(provenance, problem, tile, wrong).judge();
}

}  // namespace lanescope

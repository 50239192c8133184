#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gates/run/judge_terms.h"
#include "gates/run/provenance.h"

namespace lanescope::testing {

using ptx::Conflict;
using Said = Provenance::Term;
using Unit = Provenance::Unit;
using Keys = Provenance::Set;
using Pair = std::pair<Said, Said>;
using Row = std::int64_t;  // or key

inline Said term(const std::string& kind, Row row) {
  Said term;
  term.kind = kind;
  term.row = row;
  return term;
}
/// Of a row, over keys, in units of the score of a key.
inline Said part(const std::string& kind, Row row, Keys keys, Row maximum) {
  Said part = term(kind, row);
  part.set = std::move(keys);
  part.b = {Unit::Kind::score, row, maximum, {}};
  return part;
}
inline Said weight(Row row, Row key, Row maximum) {
  Said weight = part("weight", row, {}, maximum);
  weight.key = key;
  return weight;
}

/// Four heads of 32 queries; of K and V two of 64 keys, 16 at a time. Right, until something is
/// done to it.
struct Followed {
  Problem problem{.heads = 4, .heads_kv = 2, .len_q = 32, .len_kv = 64, .d = 8};
  Provenance all = {};
  Row tile = 16;
  std::vector<Row> wrong = {};

  explicit Followed(bool causal = false) {
    problem.causal = causal;
    for (Row row = 0; row < problem.queries(); ++row) put(row, row, seen(row));
  }
  /// The keys that it sees, and so many more.
  Keys seen(Row row, Row more = 0) const {
    const Row first = row / 64 * 64;
    return {{first, first + problem.visible_keys(row % problem.len_q) - 1 + more}};
  }
  /// `row` of the outputs is that of `from`, over `keys`.
  void put(Row row, Row from, const Keys& keys) {
    Provenance::Output o, lse;
    o.term = part("output", from, keys, 0);
    lse.term = term("log_sum", from);
    o.term.b = lse.term.a = {Unit::Kind::log_sum, from, -1, keys};
    o.values = keys;
    o.line = "store o";
    all.o[row] = {o};
    all.lse[row] = {lse};
    all.scored[row] = {{{row / 64 * 64, row / 64 * 64 + 63}}};
  }
  /// Terms meet in rows from `from` on, and what they are of each.
  template <class F>
  void meet(Conflict conflict, Row from, Row to, F&& terms_of) {
    const auto number = std::ssize(all.meetings);
    Provenance::Meeting& meeting = all.meetings[number];
    meeting = {conflict, 5, 5, 6, 7, 8, "k.cu:7", {}, {}, {}, {}};
    for (Row row = from; row < to; ++row) {
      meeting.samples.push_back(terms_of(row));
      all.o[row][0].meetings.push_back(number);
    }
  }
  void are_wrong(Row from, Row to) {
    wrong.clear();
    for (Row row = from; row < to; ++row) wrong.push_back(row);
  }
  TermJudgement judged() const { return judge_terms(all, problem, tile, wrong); }
  /// The cause, where nothing else is wrong.
  bool is(Cause cause, Stage stage) const {
    const TermJudgement judgement = judged();
    return judgement.fault && judgement.fault->cause == cause && judgement.fault->stage == stage &&
           !judgement.is_whole;
  }
};

/// Wrong rows in which terms meet.
template <class F>
Followed met(Conflict conflict, F&& terms_of) {
  Followed run;
  run.meet(conflict, 64, 128, terms_of);
  run.are_wrong(64, 128);
  return run;
}

/// Wrong rows of one head to which something is done.
template <class F>
Followed done(bool causal, F&& change) {
  Followed run(causal);
  for (Row row = 32; row < 62; ++row) change(run, row);
  run.are_wrong(32, 62);
  return run;
}

}  // namespace lanescope::testing

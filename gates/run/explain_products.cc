// What conflicts of Q·Kᵀ are called.

#include <map>
#include <set>

#include "gates/run/term_judging.h"

namespace lanescope {

/// Whether rows meet all keys of their own head, and those that lie behind them.
bool TermJudging::goes_on_behind_own(const Found& found) const {
  std::map<std::int64_t, std::int64_t> next;  // by row of Q, the first key of another head
  for (const auto& [x, y] : found.samples) {
    const Term& q = x.kind == "q" ? x : y;
    const Term& k = x.kind == "q" ? y : x;
    const auto [at, is_new] = next.try_emplace(q.row, k.row);
    if (!is_new) at->second = std::min(at->second, k.row);
  }
  return !next.empty() && std::ranges::all_of(next, [&](const auto& meets) {
    const auto [row, other] = meets;
    const auto scored = all_.scored.find(row);
    const std::int64_t first = first_key_of(row);
    const Set own = {{first, first + p_.len_kv - 1}};
    return other == first + p_.len_kv && scored != all_.scored.end() &&
           without(own, scored->second[0]).empty();
  });
}

/// Of rows of Q and keys that do not belong together.
void TermJudging::explain_heads(const Found& found, TermFault& fault, std::string& what) const {
  // What is stored as this row has another's Q.
  const auto of_q = std::count_if(found.rows.begin(), found.rows.end(), [&](std::int64_t row) {
    bool other = false;
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      other = other || (!lse && output.term.row >= 0 && output.term.row != row);
    });
    return other;
  });
  const bool batches = most_of(found.samples, [&](const Term& x, const Term& y) {
    const Term& q = x.kind == "q" ? x : y;
    const Term& k = x.kind == "q" ? y : x;
    return k.row / p_.len_kv % p_.heads_kv == p_.kv_head(head_of(q.row) % p_.heads);
  });
  // Of its own head every n-th key alone was there.
  const auto strided = std::count_if(found.rows.begin(), found.rows.end(), [&](std::int64_t row) {
    const auto scored = all_.scored.find(row);
    if (scored == all_.scored.end()) return false;
    Set own;
    const std::int64_t first = first_key_of(row), end = first + p_.len_kv;
    for (const auto& range : scored->second[0]) {
      if (range.first >= first && range.second < end) own.push_back(range);
    }
    if (own.size() < 4) return false;
    const std::int64_t step = own[1].first - own[0].first;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i].first != own[i].second || own[i].first != own[0].first + std::int64_t(i) * step) {
        return false;
      }
    }
    return true;
  });
  if (2 * strided > std::ssize(found.rows)) {
    fault.cause = Cause::wrong_stride;
    fault.stage = Stage::load;
    fault.operand = 1;
    what = "keys are taken at a multiple of their distance, of other heads at the end";
    return;
  }
  fault.stage = Stage::load;
  if (goes_on_behind_own(found)) {
    fault.cause = Cause::out_of_bounds;
    fault.operand = 1;
    what = "keys are taken behind the last one of a head: those of the next, or of none";
    return;
  }
  fault.operand = 2 * of_q > std::ssize(found.rows) ? 0 : 1;
  fault.cause = Cause::wrong_head;
  what = std::string("a row of Q meets keys of ") +
         (batches ? "another batch" : "a head that is not its own");
}

/// Of Q·Kᵀ.
void TermJudging::explain_products(const Found& found, TermFault& fault, std::string& what) const {
  const Samples& samples = found.samples;
  fault.stage = Stage::qk;
  switch (found.conflict) {
    case Conflict::other_head:
      return explain_heads(found, fault, what);
    case Conflict::wrong_factor:
      fault.cause = Cause::wrong_source;
      fault.stage = Stage::load;
      fault.of_tensors = true;
      what = "numbers are multiplied that are not of Q and K, or of P and V";
      return;
    case Conflict::column_of_other: {
      // The shift of the columns, by row of K.
      std::map<std::int64_t, std::set<std::int64_t>> shifts;
      for (const auto& [x, y] : samples) {
        const Term& k = x.kind == "k" ? x : y;
        const Term& q = x.kind == "k" ? y : x;
        shifts[k.row].insert((k.column - q.column + p_.d) % p_.d);
      }
      std::set<std::int64_t> of_rows;
      const bool by_row = std::all_of(shifts.begin(), shifts.end(), [&](const auto& of) {
        of_rows.insert(*of.second.begin());
        return of.second.size() == 1;
      });
      fault.cause = by_row && of_rows.size() > 1 ? Cause::wrong_stride : Cause::permuted;
      fault.or_stage = Stage::load;
      fault.of_columns = true;
      // Columns that change places are each in the place of another that does.
      std::set<std::int64_t> columns[2];
      for (const auto& [x, y] : samples) {
        columns[x.kind == "k" ? 1 : 0].insert(x.column);
        columns[y.kind == "k" ? 1 : 0].insert(y.column);
      }
      const bool twice = std::none_of(columns[0].begin(), columns[0].end(),
                                      [&](std::int64_t at) { return columns[1].contains(at); });
      if (twice && !samples.empty() && fault.cause == Cause::permuted) {
        fault.cause = Cause::wrong_source;
        what = "columns of Q or K stand in the place of others, too";
        return;
      }
      const auto matches = [&](bool row) {
        return most_of(samples, [&](const Term& x, const Term& y) {
          const Term& k = x.kind == "k" ? x : y;
          const Term& q = x.kind == "k" ? y : x;
          return (q.column - (row ? k.row % p_.len_kv : k.column)) % 8 == 0;
        });
      };
      if (samples.size() >= 8 && matches(true) && !matches(false)) {
        fault.cause = Cause::transposed;
        fault.operand = 1;
        what = "rows of K stand in the place of its columns";
        return;
      }
      if (by_row) fault.operand = 1;
      for (const int side : {0, 1}) {
        if (found.is_disordered(side) && !samples.empty()) {
          const Term& wrong = side == 0 ? samples.front().first : samples.front().second;
          fault.operand = wrong.kind == "k" ? 1 : 0;
        }
      }
      what = "columns of Q and K that are multiplied are not the same";
      return;
    }
    case Conflict::partial_of_other: {
      const bool over_rows = most_of(samples, [&](const Term& x, const Term& y) {
        return x.key == y.key && x.row != y.row && count(x.set) == count(y.set);
      });
      if (over_rows) {
        fault.cause = Cause::reduction_too_wide;
        what = "the scores of different rows are added up";
        return;
      }
      const bool carried = most_of(samples, [&](const Term& x, const Term& y) {
        return count(x.set) == p_.d || count(y.set) == p_.d || x.kind != y.kind;
      });
      fault.cause = carried ? Cause::accumulator_not_cleared : Cause::operand_of_other_row;
      what = carried ? "products of a score are added to another that was done"
                     : "products of different rows or keys are added up in one score";
      return;
    }
    case Conflict::column_twice:
      fault.cause = adds_itself(found) ? Cause::incomplete_reduction : Cause::contribution_repeated;
      what = "columns are counted twice in a score";
      return;
    default: {
      fault.cause = Cause::contribution_missing;
      const Term& x = samples.empty() ? Term{} : samples.front().first;
      what = "a score is used that has " + std::to_string(count(x.set)) + " of " +
             std::to_string(p_.d) + " columns";
      return;
    }
  }
}

}  // namespace lanescope

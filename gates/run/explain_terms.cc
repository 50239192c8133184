// What conflicts of terms are called.

#include <map>
#include <set>

#include "gates/run/term_judging.h"

namespace lanescope {

void TermJudging::explain(const Found& found, TermFault& fault, std::string& what) const {
  switch (found.conflict) {
    case Conflict::column_of_other:
    case Conflict::partial_of_other:
    case Conflict::column_twice:
    case Conflict::column_missing:
    case Conflict::other_head:
    case Conflict::wrong_factor:
      return explain_products(found, fault, what);
    case Conflict::value_of_other_key:
      return explain_values(found, fault, what);
    case Conflict::sum_of_other_unit:
    case Conflict::output_of_other_unit:
    case Conflict::factor_of_other_unit:
    case Conflict::inverse_of_other_unit:
    case Conflict::inverse_of_other_keys:
      return explain_units(found, fault, what);
    case Conflict::maximum_of_other_row:
    case Conflict::sum_of_other_row:
      return explain_rows(found, fault, what);
    case Conflict::weight_as_score: {
      const bool of_sums = most_of(found.samples, [this](const Term& x, const Term& y) {
        return x.kind == "sum" && y.kind == "score" && count(x.set) > 1;
      });
      fault.cause = of_sums ? Cause::wrong_formula : Cause::stale_value;
      fault.stage = Stage::softmax;
      what = of_sums ? "a maximum is subtracted from l: the factor that rescales is made of that, "
                       "not of the maximum before"
                     : "the maximum is subtracted from weights, which are no scores any more";
      return;
    }
    case Conflict::key_twice:
      return explain_repeated_keys(found, fault, what);
    case Conflict::output_of_other_row: {
      const bool carried = most_of(found.samples, [&](const Term& x, const Term& y) {
        return std::max(count(x.set), count(y.set)) >= 4 * std::min(count(x.set), count(y.set));
      });
      fault.cause = carried ? Cause::accumulator_not_cleared : Cause::operand_of_other_row;
      fault.stage = Stage::pv;
      what = "P·V of one row is added to that of another";
      return;
    }
    case Conflict::output_of_other_column: {
      // It begins anew with keys that the other has.
      const bool carried = most_of(found.samples, [](const Term& x, const Term& y) {
        return x.kind == "output" && y.kind == "output" &&
               (without(x.set, y.set).empty() || without(y.set, x.set).empty());
      });
      fault.cause = carried ? Cause::accumulator_not_cleared : Cause::permuted;
      fault.stage = Stage::pv;
      what = std::string("P·V of one column is added to that of another") +
             (carried ? ", which has the same keys in it" : "");
      return;
    }
    case Conflict::output_key_twice:
      fault.cause = Cause::contribution_repeated;
      fault.stage = Stage::pv;
      what = "P·V of keys that O has in it is added again";
      return;
    case Conflict::factor_of_other_row:
      fault.cause = Cause::operand_of_other_row;
      fault.stage = is_output(found) ? Stage::pv : Stage::softmax;
      what = "a row is rescaled by the factor of another";
      return;
    case Conflict::inverse_of_other_row:
      return explain_rows_of_inverses(found, fault, what);
    case Conflict::divided_twice:
      fault.cause = Cause::normalised_twice;
      fault.stage = Stage::epilogue;
      what = "a row is divided by l twice";
      return;
    case Conflict::logarithm_of_other_unit:
      // Of parts that are put together, one has a maximum of its own.
      fault.cause =
          all_.outline.merges.empty() ? Cause::stale_operand : Cause::incomplete_reduction;
      fault.stage = Stage::epilogue;
      what = "the logarithm of l is added to another maximum than its weights are relative to";
      return;
    default:
      // Bits of scores, where P should be.
      if (most_of(found.samples, [](const Term& x, const Term& y) {
            return x.kind == "score" && y.kind == "v";
          })) {
        fault.cause = Cause::wrong_source;
        fault.stage = Stage::pv;
        what = "scores are multiplied with V where weights should be";
        return;
      }
      what = "numbers meet that attention has no use for";
      fault.share = 0;
      return;
  }
}

/// Of weights whose keys l has in it already.
void TermJudging::explain_repeated_keys(const Found& found, TermFault& fault,
                                        std::string& what) const {
  if (skips_keys(found)) {
    fault.cause = Cause::stale_operand;
    fault.stage = Stage::load;
    fault.operand = 1;
    what = "keys count again in the place of others, whose scores were never made";
    return;
  }
  // A tile that comes twice is in O twice as well.
  fault.cause = adds_itself(found) && !found.output_keys_twice ? Cause::incomplete_reduction
                                                               : Cause::contribution_repeated;
  fault.stage = Stage::softmax;
  what = "weights of keys that l has in it are added to it again";
  // Numbers that are none are as far above themselves as a maximum.
  fault.of_nothing = most_of(found.samples, [](const Term& x, const Term& y) {
    return (x.kind == "weight" && x.a == x.b) != (y.kind == "weight" && y.a == y.b);
  });
  if (fault.of_nothing) what = "a weight of 1, that of the maximum, is added to l again";
}

/// Of a row that is divided by the l of another.
void TermJudging::explain_rows_of_inverses(const Found& found, TermFault& fault,
                                           std::string& what) const {
  // Who is in its place: what is stored as this row, or l.
  bool weights = true;
  for (const std::int64_t row : found.rows) {
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      weights = weights && (lse || output.term.row != row);
    });
  }
  // Or in some of its columns alone.
  const auto mixed = std::count_if(found.rows.begin(), found.rows.end(), [&](std::int64_t row) {
    std::set<bool> own;
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      if (!lse && output.term.kind == "output") own.insert(output.term.row == row);
    });
    return own.size() == 2;
  });
  if (2 * mixed > std::ssize(found.rows)) {
    fault.cause = Cause::permuted;
    fault.stage = Stage::epilogue;
    what = "columns of another row's P·V stand among this one's, and are divided by its l";
    return;
  }
  // Where the log-sum-exp has the other l as well, l is wrong before both.
  bool sums = false;
  for (const std::int64_t row : found.rows) {
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      sums = sums || (lse && (!output.meetings.empty() || output.term.row != row));
    });
  }
  fault.cause = Cause::operand_of_other_row;
  fault.stage = weights ? Stage::pv : sums ? Stage::softmax : Stage::epilogue;
  what = weights ? "the weights of another row are summed up with V, and divided by this one's l"
                 : "a row is divided by the l of another";
}

/// Of scores, maxima and sums of different rows.
void TermJudging::explain_rows(const Found& all, TermFault& fault, std::string& what) const {
  // A right row that meets a wrong one may have left it that: it tells where no wrong row does.
  Found found = all;
  std::erase_if(found.samples, [this](const auto& sample) {
    return !is_wrong_.contains(sample.first.row) && !sample.first.is_input();
  });
  if (found.samples.empty()) found = all;
  const bool maximum = found.conflict == Conflict::maximum_of_other_row;
  fault.stage = Stage::softmax;
  const bool turned = most_of(found.samples, [](const Term& x, const Term& y) {
    return x.key >= 0 && x.key == y.key && x.row != y.row;
  });
  if (turned) {
    const bool summed = !maximum && !found.outputs_too;
    fault.cause = Cause::transposed;
    if (!summed) fault.stage = Stage::qk;
    what = summed ? "weights of a column are summed up, where those of a row should be"
                  : "scores of a column stand in a row";
    return;
  }
  // From tile to tile of keys, both go on.
  const bool by_tile = most_of(found.samples, [this](const Term& x, const Term& y) {
    return x.key >= 0 && y.key >= 0 && head_of(x.row) == head_of(y.row) &&
           (x.row - y.row) % 8 == 0 && tile_of(x.key) != tile_of(y.key) &&
           (x.row < y.row) == (x.key < y.key);
  });
  if (by_tile) {
    fault.cause = Cause::operand_of_other_row;
    fault.stage = Stage::load;
    fault.operand = 0;
    what = "rows of Q are others with every tile of keys";
    return;
  }
  // One row for each: a wrong one; a row for several: a reduction over them.
  // Where scores of a row meet the maximum of another, of two maxima the first is what the row had
  // before: the one that is met.
  using Place = std::pair<std::int64_t, std::int64_t>;
  std::set<Place> maxima, meeting;
  for (const auto& [x, y] : found.samples) maxima.emplace(y.row, y.key);
  const auto is_maximum = [&](const Term& x) {
    return maximum && x.kind == "score" && maxima.contains({x.row, x.key});
  };
  for (const auto& [x, y] : found.samples) {
    if (!is_maximum(x)) meeting.emplace(x.row, y.row);
  }
  std::vector<std::pair<Term, Term>> samples = found.samples;
  for (auto& [x, y] : samples) {
    if (is_maximum(x) && meeting.contains({y.row, x.row})) std::swap(x, y);
  }
  std::map<std::int64_t, std::set<std::int64_t>> others;
  for (const auto& [x, y] : samples) others[y.row].insert(x.row);
  const bool pairs = std::all_of(others.begin(), others.end(),
                                 [](const auto& rows) { return rows.second.size() == 1; });
  // Of a row of another tile: it holds what it held before.
  const auto is_carried = [this, &found](const Term& x, const Term& y) {
    if (head_of(x.row) != head_of(y.row)) return true;
    constexpr std::int64_t of_warp = 16, of_warpgroup = 64;
    return std::abs(x.row - y.row) >= (found.sums_too ? of_warp : of_warpgroup);
  };
  // What is carried from row to row comes from one before, and does not go back to it.
  const bool mutual = std::ranges::any_of(samples, [&](const auto& sample) {
    const auto back = others.find(sample.first.row);
    return back != others.end() && back->second.contains(sample.second.row);
  });
  // It has been through all keys before a row's first are taken: keys before and behind them.
  bool before = false, behind = false;
  for (const auto& [x, y] : samples) {
    if (!maximum || x.kind != "score" || y.kind != "score" || head_of(x.row) != head_of(y.row))
      continue;
    before = before || tile_of(y.key) < tile_of(x.key);
    behind = behind || tile_of(y.key) > tile_of(x.key);
  }
  const bool carried = !mutual && ((before && behind) || (pairs && most_of(samples, is_carried)));
  fault.cause = carried                                  ? Cause::accumulator_not_cleared
                : maximum && pairs && !found.outputs_too ? Cause::operand_of_other_row
                                                         : Cause::reduction_too_wide;
  what = maximum ? "a score meets the maximum of another row"
                 : "weights of different rows are summed up";
}

}  // namespace lanescope

// What is wrong with outputs whose parts all go together.

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "gates/run/term_judging.h"

namespace lanescope {

/// Whether the log-sum-exp (true) or O (false) of a row lacks keys that the other has.
std::optional<bool> TermJudging::lacks_alone(std::int64_t row, const Set& want) const {
  bool o = false, lse = false, any_lse = false;
  each_output(row, [&](const Provenance::Output& output, bool is_lse) {
    const Set& keys = is_lse ? output.term.a.keys : output.term.set;
    (is_lse ? lse : o) = keys != want;
    any_lse = any_lse || is_lse;
    // O's own l tells as well.
    if (!is_lse && output.term.b.kind == Unit::Kind::log_sum && output.term.b.keys == want && o) {
      any_lse = true;
    }
  });
  if (!any_lse || o == lse) return std::nullopt;
  return lse;
}

/// Whether O of a row is divided by an l that has all keys, whatever the log-sum-exp has.
bool TermJudging::divides_by_all(std::int64_t row, const Set& want) const {
  bool all = true;
  each_output(row, [&](const Provenance::Output& output, bool is_lse) {
    all =
        all && (is_lse || output.term.b.kind != Unit::Kind::log_sum || output.term.b.keys == want);
  });
  return all;
}

/// Which keys count in a row, where that are not those that it sees.
std::string TermJudging::other_keys(std::int64_t row, const Set& keys, TermFault& fault) const {
  const Set want = visible(row), missing = without(want, keys), extra = without(keys, want);
  const auto scored = all_.scored.find(row);
  const bool made = scored != all_.scored.end() && without(missing, scored->second[0]).empty();
  fault.evidence.push_back(row_text(row) + ": keys " +
                           keys_text(missing.empty() ? extra : missing));
  // What O or the log-sum-exp alone lacks, no mask has taken.
  if (const std::optional<bool> one = lacks_alone(row, want); one && extra.empty() && made) {
    fault.cause = *one ? Cause::incomplete_reduction : Cause::contribution_missing;
    fault.stage = !*one ? Stage::pv : divides_by_all(row, want) ? Stage::epilogue : Stage::softmax;
    // Alpha is 0 in the first tile: applied again with every key, it leaves the last one.
    const std::int64_t first = first_key_of(row), next = missing[0].second + 1;
    const bool leaves_last = missing.size() == 1 && missing[0].first == first && next > first &&
                             (next - first + 1) % 8 == 0;
    if (!*one && leaves_last) {
      fault.cause = Cause::rescaled_twice;
      return "of the keys of the first tile the last alone is left in O, as where alpha is applied "
             "with every key";
    }
    // Problems without a mask come first: in those l has its last keys.
    const bool of_mask = *one && p_.causal && missing.size() == 1 && count(missing) <= 2 &&
                         missing[0].second == want[0].second;
    if (of_mask) {
      fault.cause = Cause::mask_off_by_one;
      fault.stage = Stage::softmax;
      return "the last keys that the mask lets a row see are left out of l, whose weights O has";
    }
    return *one ? "keys are left out of l, whose weights O has"
                : "keys are left out of P·V that l has";
  }
  // Those of the last tile that the row sees, whatever its mask.
  const bool of_last_tile =
      made && extra.empty() && tile_ > 0 && keys.size() == 1 && keys[0].second == want[0].second &&
      (keys[0].first - first_key_of(row)) % tile_ == 0 && keys[0].second - keys[0].first < tile_;
  if (of_last_tile) {
    fault.cause = Cause::accumulator_lost;
    fault.stage = Stage::softmax;
    return "the keys of the last tile alone count";
  }
  // Weights that were made no mask has taken.
  const auto weighed = all_.weighed.find(row);
  const bool were_weights = !missing.empty() && extra.empty() && weighed != all_.weighed.end() &&
                            without(missing, weighed->second).empty();
  if (were_weights) {
    fault.cause = Cause::contribution_missing;
    fault.stage = Stage::softmax;
    fault.loses_weights = true;
    return "keys are left out of all sums, whose weights were made";
  }
  // Whole tiles, the same of all rows, whatever a mask lets them see.
  const bool of_whole_tiles = tile_ > 0 && missing.size() == 1 && wrong_.size() > 1 &&
                              left_out_.size() == 1 &&
                              (missing[0].first - first_key_of(row)) % tile_ == 0 &&
                              (missing[0].second + 1 - first_key_of(row)) % tile_ == 0;
  if (made && extra.empty() && of_whole_tiles) {
    fault.cause = Cause::contribution_missing;
    fault.stage = all_.outline.merges.empty() ? Stage::softmax : Stage::combine;
    return "tiles are left out in all rows, whose scores were made";
  }
  fault.stage = Stage::qk;
  // Who puts something else in the place of scores, or should.
  if (!all_.masks.empty()) fault.lines = all_.masks;
  const bool from_begin = keys.size() == 1 && keys[0].first == first_key_of(row);
  const std::int64_t limit = from_begin ? count(keys) - count(want) : 0;
  if (!missing.empty() && !made) {
    // A key that begins a tile is the tail of it all.
    const bool of_tile = tile_ > 0 && (missing[0].first - first_key_of(row)) % tile_ == 0;
    const bool of_end =
        -2 <= limit && limit < 0 && extra.empty() && limits_.size() <= 1 && !of_tile;
    fault.cause = of_end ? Cause::mask_off_by_one : Cause::tile_skipped;
    fault.lacks_scores = true;
    if (!of_end) fault.operand = 1;
    return of_end ? "the last keys of a row are left out, whose scores were never made"
                  : "keys are left out, whose scores were never made";
  }
  if (missing.empty() && tiles_unmasked_) {
    fault.cause = Cause::causal_mask_missing;
    return "keys up to the end of a tile count, as if tiles on the diagonal had no mask";
  }
  if (missing.empty() && from_begin && count(keys) == p_.len_kv) {
    fault.cause = masks_ ? Cause::mask_misaligned : Cause::causal_mask_missing;
    return "all keys count";
  }
  if (limit != 0) {
    const bool next = std::abs(limit) <= 2 && limits_.size() <= 1;
    fault.cause = next ? Cause::mask_off_by_one : Cause::mask_misaligned;
    return std::string("the row sees ") + (limit > 0 ? "too many" : "too few") + " keys";
  }
  // A key of each part.
  const bool singles = !missing.empty() && 8 * count(missing) <= count(want) &&
                       count(missing) == std::ssize(missing) && extra.empty();
  if (singles) {
    fault.cause = Cause::mask_off_by_one;
    return "single keys are left out";
  }
  const bool ends = !want.empty() && keys.size() == 1 && keys[0].second == want[0].second;
  fault.cause = ends ? Cause::sliding_window : Cause::mask_wrong;
  return missing.empty() ? "keys count that the row does not see"
                         : "keys are left out, whose scores were made";
}

/// Columns of V may come in another order than those that follow each other as O is stored: in one
/// for all rows.
void TermJudging::tell_order_of_values(TermFault& fault, std::string& what) const {
  const bool is_placed = is_disordered(2);
  if (all_.columns_by_row) return;
  if (!is_placed && 4 * all_.columns_out_of_order < all_.columns_in_order) return;
  if (!is_placed && all_.columns_out_of_order == 0) return;
  fault.stage = is_placed ? Stage::load : Stage::pv;
  fault.operand = 2;
  fault.stage_is_told = true;
  what = is_placed ? "columns of V do not lie in their order where they are put in memory"
                   : "columns of V are multiplied in another order than those of O are stored in";
}

/// Where all parts go together: which are there, and where they are stored.
std::optional<TermFault> TermJudging::of_outputs() {
  for (const auto& [row, outputs] : all_.o) {
    for (const Provenance::Output& output : outputs) {
      const std::int64_t keys = count(output.term.set);
      masks_ = masks_ || (keys > 0 && keys < p_.len_kv && output.term.set.size() == 1);
    }
  }
  // Wrong rows that see too many, up to where a tile may end or all of them.
  std::int64_t more = 0, to_end = 0, within = 0;
  for (const std::int64_t row : wrong_) {
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      const Set& keys = output.term.set;
      const bool counted = !lse && keys.size() == 1 && keys[0].first == first_key_of(row);
      if (counted && keys != visible(row)) limits_.insert(count(keys) - count(visible(row)));
      if (!lse && !keys.empty()) {
        Set missing = without(visible(row), keys);
        for (auto& [first, last] : missing) first -= first_key_of(row), last -= first_key_of(row);
        left_out_.insert(missing);
      }
      if (lse || keys.size() != 1 || count(keys) <= count(visible(row))) return;
      ++more;
      const std::int64_t end = keys[0].second + 1 - first_key_of(row);
      to_end += end % 16 == 0 || end == p_.len_kv;
      within += end < p_.len_kv;
    });
  }
  tiles_unmasked_ = more > 0 && 10 * to_end >= 9 * more && within > 0 && wrong_.size() > 2;
  // What is computed of other rows is not computed of these: no store leads to that.
  const bool others_are_computed =
      8 * std::ranges::count_if(wrong_, [&](std::int64_t row) { return lacks_all_scores(row); }) >=
      std::ssize(wrong_);
  std::map<std::string, std::pair<TermFault, double>> kinds;
  for (const std::int64_t row : wrong_) {
    const Set want = visible(row);
    std::set<std::string> own;
    bool known = true;
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      const Term& term = output.term;
      known = known && (lse || term.kind == "output");
      // Where O is not what it should be, its log-sum-exp is not that of anything.
      if (lse && !known) return;
      TermFault fault;
      fault.lines = {output.line};
      std::string what;
      const auto is = [&](Cause cause, Stage stage, std::string text) {
        fault.cause = cause;
        fault.stage = stage;
        what = std::move(text);
      };
      const Set& keys = lse ? term.a.keys : term.set;
      const bool is_number = term.kind == "-" || term.kind == "unknown";
      if (is_number && lacks_all_scores(row)) {
        is(Cause::tile_skipped, Stage::qk, "no score of a row is ever made that sees keys");
        fault.operand = 1;
      } else if (is_number) {
        return;
      } else if (term.row != row && !keys.empty() && visible_as(row, term.row, keys)) {
        is(Cause::operand_of_other_row, Stage::qk,
           "the row of Q is another than the row whose keys are seen");
        fault.operand = 0;
      } else if (term.row != row && others_are_computed) {
        is(Cause::operand_of_other_row, Stage::qk,
           "rows of Q stand in the place of others, whose scores are never made");
        fault.operand = 0;
      } else if (term.row != row) {
        is(Cause::misplaced, Stage::epilogue, "rows are stored at the place of others");
      } else if (!output.own_column && all_.repeats_columns.contains(row)) {
        is(Cause::wrong_source, Stage::pv, "columns of V stand in the place of others, too");
      } else if (!output.own_column) {
        is(Cause::permuted, Stage::epilogue, "columns are stored at the place of others");
        tell_order_of_values(fault, what);
      } else if (lse && term.kind == "score") {
        is(Cause::lse_without_sum, Stage::epilogue, "the log-sum-exp is the maximum alone");
      } else if (lse && term.kind == "logarithm" && term.b.kind != Unit::Kind::none) {
        is(Cause::lse_without_maximum, Stage::epilogue, "the log-sum-exp lacks the maximum");
      } else if (!lse && term.kind == "output" && term.b.kind != Unit::Kind::log_sum) {
        is(Cause::not_normalised, Stage::epilogue, "O is not divided by l");
      } else if (!keys.empty() && keys != want) {
        what = other_keys(row, keys, fault) + (lse ? ", in the log-sum-exp" : "");
      }
      if (what.empty() || !own.insert(what).second) return;
      auto& [known, rows] = kinds[what];
      if (rows++ == 0) {
        known = fault;
        known.evidence.insert(known.evidence.begin(), output.line + ": " + what);
      }
    });
  }
  const auto most = std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    return a.second.second < b.second.second;
  });
  if (most == kinds.end() || wrong_.empty()) return std::nullopt;
  TermFault fault = most->second.first;
  // Of the others nothing is known: the kernel alone made them, or nobody stored them.
  const auto told =
      static_cast<double>(std::count_if(wrong_.begin(), wrong_.end(), [&](std::int64_t row) {
        bool any = false;
        each_output(row, [&](const Provenance::Output& output, bool) {
          any = any || (output.term.kind != "-" && output.term.kind != "unknown");
        });
        return any || lacks_all_scores(row);
      }));
  if (fault.operand) tell_operand({}, fault);
  fault.share = most->second.second / std::max(told, 1.0);
  // Rows that see the same keys as others do not tell whether they are stored elsewhere.
  for (auto& [what, kind] : kinds) {
    if (fault.cause != Cause::misplaced || kind.first.cause != Cause::operand_of_other_row)
      continue;
    kind.first.share = fault.share;
    return kind.first;
  }
  return fault;
}

}  // namespace lanescope

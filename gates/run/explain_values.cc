// What conflicts of weights and values are called.

#include <map>
#include <set>

#include "gates/run/term_judging.h"

namespace lanescope {

/// At which distance rows of V are taken that lie side by side in their tile; nothing where none
/// gives all pairs.
std::optional<std::int64_t> TermJudging::stride_of_values(const Samples& samples) const {
  std::int64_t least = 1, most = 4 * p_.d;
  std::set<std::int64_t> shifts;
  for (const auto& [weight, value] : samples) {
    shifts.insert(value.row - weight.key);
    const std::int64_t key = weight.key % p_.len_kv % tile_;
    const std::int64_t at = value.row % p_.len_kv % tile_ * p_.d + value.column;
    if (tile_of(value.row) != tile_of(weight.key)) return std::nullopt;
    if (key == 0 && at >= p_.d) return std::nullopt;
    if (key == 0) continue;
    // The column is one of d, whichever.
    least = std::max(least, (at - p_.d) / key + 1);
    most = std::min(most, at / key);
  }
  if (shifts.size() == 1) return std::nullopt;  // all are one row off, or so many
  constexpr std::int64_t open = 4;
  const bool known = least <= most && most - least < open && !(least <= p_.d && p_.d <= most);
  // Of few that are left, the one that is a multiple of most.
  if (!known) return std::nullopt;
  for (const std::int64_t step : {64, 32, 16, 8, 4, 2, 1}) {
    if (most / step * step >= least) return most / step * step;
  }
  return std::nullopt;
}

/// Of heads of V that are taken to lie at another distance: the rows are off by the same number
/// times the head.
bool TermJudging::explain_strided_heads(const Found& found, TermFault& fault,
                                        std::string& what) const {
  std::map<std::int64_t, std::set<std::int64_t>> by_head;
  for (const auto& [weight, value] : found.samples) {
    by_head[weight.key / p_.len_kv].insert(value.row - weight.key);
  }
  std::set<std::int64_t> steps;
  bool strided = !by_head.empty();
  for (const auto& [head, own] : by_head) {
    strided = strided && head > 0 && own.size() == 1 && *own.begin() % head == 0;
    if (strided) steps.insert(*own.begin() / head);
  }
  // Of one head alone any number of rows would be one; as many as Q has are no accident.
  const bool as_queries = strided && *steps.begin() == p_.len_q - p_.len_kv;
  if (strided && steps.size() == 1 && (by_head.size() > 1 || as_queries)) {
    fault.cause = Cause::wrong_stride;
    fault.stage = Stage::load;
    what = "heads of V are taken to lie at another distance than they do";
    return true;
  }
  return false;
}

/// Of weights and rows of V that are of different heads.
void TermJudging::explain_heads_of_values(const Found& found, TermFault& fault,
                                          std::string& what) const {
  // Which of both are of the head that the output is stored as.
  const auto has_own_values = [&](std::int64_t row) {
    bool own = true;
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      const Set keys = {{first_key_of(row), first_key_of(row) + p_.len_kv - 1}};
      const bool is_own = output.term.row != row && without(output.values, keys).empty();
      own = own && (lse || output.term.kind != "output" || is_own);
    });
    return own;
  };
  const bool of_weights = std::ranges::all_of(found.rows, has_own_values);
  fault.cause = Cause::wrong_head;
  fault.stage = of_weights ? Stage::pv : Stage::load;
  if (of_weights) fault.operand.reset();
  what = of_weights ? "rows of V meet the weights of another head"
                    : "weights meet rows of V of another head";
}

/// Of weights or rows of V that alone do not follow each other.
bool TermJudging::explain_order_of_values(const Found& found, TermFault& fault,
                                          std::string& what) const {
  // Of two orders the one that goes on by one is no accident.
  if (found.is_disordered(0)) {
    const bool scores = all_.keys_out_of_order > 0;
    fault.cause = Cause::permuted;
    fault.stage_is_told = true;
    if (scores) {
      fault.stage = Stage::qk;
      fault.operand = 1;
      what = "the scores' keys stand in another order than the rows of V, which follow each other";
    } else {
      fault.or_stage.reset();
      fault.operand.reset();
      what = "weights are taken in another order than their keys and the rows of V stand in";
    }
    return true;
  }
  if (found.is_disordered(1)) {
    fault.cause = Cause::permuted;
    fault.or_stage.reset();
    fault.stage_is_told = true;
    what = "the rows of V stand in another order than the weights, whose keys follow each other";
    return true;
  }
  return false;
}

/// Of P·V, whose keys are not the same.
void TermJudging::explain_values(const Found& found, TermFault& fault, std::string& what) const {
  std::set<std::int64_t> shifts;
  bool other_head = true, far = true;
  for (const auto& [weight, value] : found.samples) {
    shifts.insert(value.row - weight.key);
    far = far && (value.row - weight.key) % 16 == 0 && tile_of(value.row) != tile_of(weight.key);
    other_head = other_head && value.row / p_.len_kv != weight.key / p_.len_kv;
  }
  fault.stage = Stage::pv;
  fault.or_stage = Stage::load;
  fault.operand = 2;
  if (explain_strided_heads(found, fault, what)) return;
  if (other_head) return explain_heads_of_values(found, fault, what);
  const bool turned = most_of(found.samples, [&](const Term& weight, const Term& value) {
    return (value.column - weight.key % p_.len_kv) % 8 == 0;
  });
  if (turned && found.samples.size() >= 8) {
    fault.cause = Cause::transposed;
    what = "rows of V stand in the place of its columns";
    return;
  }
  if (const auto stride = stride_of_values(found.samples); stride && found.samples.size() >= 8) {
    fault.cause = Cause::wrong_stride;
    fault.or_stage.reset();
    fault.stage_is_told = true;
    what = "rows of V are taken to lie " + std::to_string(*stride) + " elements apart";
    return;
  }
  if (explain_order_of_values(found, fault, what)) return;
  // Which of both are wrong: those by which rows come to keys they do not see, or lack some.
  double keys_off = 0, values_off = 0, sums_off = 0, rows = 0;
  for (const std::int64_t row : found.rows) {
    const Set want = visible(row);
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      if (lse || output.term.kind != "output") return;
      ++rows;
      const bool twice =
          std::any_of(output.meetings.begin(), output.meetings.end(), [&](std::int64_t meeting) {
            return all_.meetings.at(meeting).conflict == Conflict::output_key_twice;
          });
      const bool lacks_value = !without(want, output.values).empty();
      keys_off += output.term.set != want || twice;
      // Weights that should be none meet rows of V that count for nothing.
      values_off += twice ? lacks_value : output.values != want;
      if (output.term.b.kind == Unit::Kind::log_sum) sums_off += output.term.b.keys != want;
    });
  }
  const Cause cause = far ? Cause::stale_operand : Cause::operand_of_other_row;
  if (2 * keys_off > rows && 2 * values_off <= rows) {
    // Of keys that V's rows are of there are no scores, or those of others were made more often.
    const bool scores =
        2 * sums_off > rows || most_of(found.samples, [&](const Term& weight, const Term& value) {
          return times_scored(weight.row, weight.key) > times_scored(weight.row, value.row);
        });
    fault.stage = scores ? (far ? Stage::load : Stage::qk) : Stage::pv;
    fault.or_stage.reset();
    fault.cause = cause;
    fault.operand = scores ? std::optional(1) : std::nullopt;
    what = scores ? "the scores are of other keys than the rows of V that they weigh"
                  : "the weights are of other keys than the rows of V that they meet";
    return;
  }
  if (2 * values_off > rows && 2 * keys_off <= rows && (far || shifts.size() == 1)) {
    fault.cause = cause;
    if (far) std::swap(fault.stage, *fault.or_stage);
    what = "the rows of V are of other keys than the weights that they meet";
    return;
  }
  fault.cause = far ? cause : Cause::permuted;
  // Products of Q and K whose keys follow each other take no row of K for another.
  if (!far && all_.keys_in_order > 0 && all_.keys_out_of_order == 0) {
    fault.or_stage.reset();
    fault.stage_is_told = true;
  }
  what = far ? "weights meet rows of V of other tiles"
             : "weights and rows of V are paired in the wrong order";
}

}  // namespace lanescope

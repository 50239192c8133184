// What conflicts of numbers that are relative to different maxima are called.

#include <array>

#include "gates/run/term_judging.h"

namespace lanescope {

/// Of O that is divided by an l of other keys.
void TermJudging::explain_keys_of_inverses(const Found& found, TermFault& fault,
                                           std::string& what) const {
  double sums_off = 0, outputs_off = 0;
  for (const auto& [x, y] : found.samples) {
    const Set want = visible(x.row);
    outputs_off += x.set != want;
    sums_off += y.set != want;
  }
  const bool sums = sums_off >= outputs_off;
  // The log-sum-exp may have the whole l.
  bool whole = true, any = false;
  for (const std::int64_t row : found.rows) {
    each_output(row, [&](const Provenance::Output& output, bool lse) {
      any = any || lse;
      whole = whole && (!lse || (output.term.kind == "log_sum" && output.meetings.empty() &&
                                 output.term.a.keys == visible(row)));
    });
  }
  fault.stage = !sums ? Stage::pv : any && whole ? Stage::epilogue : Stage::softmax;
  const bool more = most_of(found.samples, [&](const Term& x, const Term& y) {
    return count(sums ? y.set : x.set) > count(visible(x.row));
  });
  const bool interleaved = most_of(found.samples, [&](const Term& x, const Term& y) {
    return (sums ? y.set : x.set).size() > 2;
  });
  fault.cause = more                  ? Cause::contribution_repeated
                : interleaved && sums ? Cause::incomplete_reduction
                                      : Cause::contribution_missing;
  what = "O is divided by an l of other keys";
}

/// Of O that is divided by what is relative to another maximum.
void TermJudging::explain_inverses(const Found& found, TermFault& fault, std::string& what) const {
  const bool divided = most_of(found.samples, [](const Term& x, const Term& inverse) {
    return x.b.kind == Unit::Kind::log_sum && count(inverse.set) < count(x.set);
  });
  if (divided) {
    fault.cause = Cause::wrong_formula;
    fault.stage = Stage::combine;
    what = "parts that are divided by their l are weighed by their maxima alone";
    return;
  }
  const bool undivided = most_of(found.samples, [](const Term& x, const Term& inverse) {
    return x.b.kind == Unit::Kind::score && inverse.b.kind == Unit::Kind::log_sum;
  });
  if (undivided) {
    fault.cause = Cause::not_normalised;
    fault.stage = Stage::epilogue;
    what = "parts that are not divided by their l are weighed as if they were";
    return;
  }
  fault.cause = Cause::not_rescaled;
  what = "O is divided by an l whose weights are relative to another maximum";
}

/// Of factors that rescale from another maximum than that of what they are applied to.
void TermJudging::explain_factors(const Found& found, TermFault& fault, std::string& what) const {
  const bool normalised = most_of(found.samples, [](const Term& weight, const Term& x) {
    return x.b.kind == Unit::Kind::log_sum && weight.b.kind == Unit::Kind::score;
  });
  if (normalised) {
    fault.cause = Cause::wrong_formula;
    what = "parts that are divided by their l are weighed by their maxima alone";
    return;
  }
  const bool summed =
      is_output(found) && most_of(found.samples, [](const Term& weight, const Term& x) {
        return (weight.kind == "sum" || x.kind == "sum") && weight.set == x.set;
      });
  if (summed) {
    fault.cause = Cause::weighted_by_sum;
    fault.stage = Stage::combine;
    what = "parts that are not divided by their l are weighed by it";
    return;
  }
  const bool undivided = most_of(found.samples, [](const Term& weight, const Term& x) {
    return weight.a.kind == Unit::Kind::log_sum && x.b.kind == Unit::Kind::score;
  });
  if (undivided && is_output(found) && all_.outline.merges.empty()) {
    fault.cause = Cause::wrong_formula;
    fault.stage = Stage::softmax;
    what =
        "what was summed up before is rescaled by its log-sum-exp, which has l in it, not by "
        "its maximum";
    return;
  }
  if (undivided && is_output(found)) {
    fault.cause = Cause::weighted_by_sum;
    fault.stage = Stage::combine;
    what = "parts that are not divided by their l are weighed by their log-sum-exps, which have it";
    return;
  }
  const bool twice =
      most_of(found.samples, [](const Term& weight, const Term& x) { return x.b == weight.b; });
  fault.cause = twice ? Cause::rescaled_twice : Cause::not_rescaled;
  what = twice ? "what is relative to the new maximum already is rescaled to it again"
               : "a factor rescales from another maximum than it is applied to";
}

/// Of sums whose parts are relative to different maxima.
void TermJudging::explain_sums_of_units(const Found& found, TermFault& fault,
                                        std::string& what) const {
  const bool half_divided = most_of(found.samples, [](const Term& x, const Term& y) {
    const auto divided = [](const Term& term) { return term.b.kind == Unit::Kind::log_sum; };
    return divided(x) != divided(y);
  });
  if (half_divided) {
    fault.cause = Cause::not_normalised;
    fault.stage = Stage::softmax;
    what = "weights that are divided by l are summed up with others that are not";
    return;
  }
  // Parts that are divided by an l of several, which is not the row's: it was summed up over some.
  const bool of_some = most_of(found.samples, [&](const Term& x, const Term& y) {
    const auto is_of_others = [&](const Term& term) {
      return count(term.b.keys) > count(term.set) && term.b.keys != visible(term.row);
    };
    const bool divided = x.b.kind == Unit::Kind::log_sum && y.b.kind == Unit::Kind::log_sum;
    return divided && (is_of_others(x) || is_of_others(y));
  });
  if (of_some) {
    fault.cause = Cause::incomplete_reduction;
    fault.stage = Stage::combine;
    what = "parts are divided by sums over some of them alone";
    return;
  }
  // Keys side by side that are relative to different maxima: lanes have theirs of their own.
  const auto span = [](const Term& term) {
    if (term.set.empty()) return std::pair(term.key, term.key);
    return std::pair(term.set.front().first, term.set.back().second);
  };
  const bool interleaved = most_of(found.samples, [&](const Term& x, const Term& y) {
    const auto a = span(x), b = span(y);
    const bool single = a.first == a.second && b.first == b.second;
    if (single && tile_of(a.first) == tile_of(b.first)) return true;
    return a.first <= b.second && b.first <= a.second;
  });
  // A maximum that goes on from part to part is that of a key between the first and the last. One
  // of a key beyond is known before, of some parts alone where two differ.
  const auto is_beyond = [&](const auto& sample) {
    const auto& [x, y] = sample;
    const auto a = span(x), b = span(y);
    const auto first = std::min(a.first, b.first), last = std::max(a.second, b.second);
    return std::ranges::any_of(std::array{x, y}, [&](const Term& term) {
      return term.b.kind == Unit::Kind::score && (term.b.key < first || term.b.key > last);
    });
  };
  const bool known_before =
      !all_.outline.merges.empty() &&
      5 * std::ranges::count_if(found.samples, is_beyond) >= std::ssize(found.samples);
  // Where only their sums meet, each is right by itself.
  const bool sums_alone = found.conflict == Conflict::sum_of_other_unit && !found.outputs_too;
  fault.cause = known_before || (interleaved && !sums_alone) ? Cause::incomplete_reduction
                                                             : Cause::not_rescaled;
  if (interleaved) fault.stage = Stage::softmax;
  what = interleaved    ? "parts of a row are relative to different maxima"
         : known_before ? "parts are relative to the maxima of some of them alone"
                        : "what was summed up before is not rescaled to the new maximum";
}

/// Of what is relative to different maxima.
void TermJudging::explain_units(const Found& found, TermFault& fault, std::string& what) const {
  fault.stage = is_output(found) ? Stage::pv : Stage::softmax;
  switch (found.conflict) {
    case Conflict::inverse_of_other_keys:
      return explain_keys_of_inverses(found, fault, what);
    case Conflict::inverse_of_other_unit:
      return explain_inverses(found, fault, what);
    case Conflict::factor_of_other_unit:
      return explain_factors(found, fault, what);
    default:
      return explain_sums_of_units(found, fault, what);
  }
}

}  // namespace lanescope

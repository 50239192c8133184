#include "debug/ptx/terms.h"

#include <utility>

namespace lanescope::ptx {

Terms::Terms(const Sides& sides, std::function<std::uint32_t(Conflict, TermId, TermId)> report)
    : sides_(sides),
      report_(std::move(report)),
      all_columns_(sets_.id_of({{0, sides.columns}})),
      terms_(2) {}

TermId Terms::make(Term term) {
  terms_.push_back(term);
  return static_cast<TermId>(terms_.size() - 1);
}

void Terms::note_score(const Term& score) {
  if (scored_.size() <= score.a.row) scored_.resize(score.a.row + 1);
  const IndexSets::Id key = sets_.single(score.a.key());
  constexpr std::size_t most = 8;
  for (std::size_t i = 0; i < most; ++i) {
    std::vector<IndexSets::Id>& keys = scored_[score.a.row];
    if (keys.size() == i) keys.push_back(0);
    const auto [both, known] = sets_.unite(keys[i], key);
    keys[i] = both;
    if (!known) return;
  }
}

void Terms::note_weight(const Term& weight) {
  if (!weight.a.is_score()) return;
  if (weighed_.size() <= weight.a.row) weighed_.resize(weight.a.row + 1);
  IndexSets::Id& keys = weighed_[weight.a.row];
  keys = sets_.unite(keys, sets_.single(weight.a.key())).set;
}

TermId Terms::note(Term term, Conflict conflict, TermId x, TermId y) {
  term.faults = sets_.unite(term.faults, sets_.single(report_(conflict, x, y))).set;
  return make(term);
}

TermId Terms::unknown(TermId x, TermId y) {
  Term term;
  term.faults = sets_.unite(faults_of(x), faults_of(y)).set;
  if (is(x, TermKind::unknown)) return x;
  if (is(y, TermKind::unknown)) return y;
  return note(term, Conflict::odd, x, y);
}

std::uint32_t Terms::head_of_keys(std::uint32_t query_row) const {
  const std::uint32_t head = query_row / sides_.len_q, in_batch = head % sides_.heads;
  return head / sides_.heads * sides_.heads_kv + in_batch / (sides_.heads / sides_.heads_kv);
}

TermId Terms::negate(TermId x) {
  if (x == no_term || is_input(x)) return x;
  Term term = terms_[x];
  if (term.kind == TermKind::difference) {
    std::swap(term.a, term.b);
  } else {
    term.negated = !term.negated;
  }
  return make(term);
}

// Sums.

TermId Terms::add(TermId x, TermId y) {
  if (x == no_term) return y;
  if (y == no_term) return x;
  if (is(x, TermKind::quotient)) x = without_weight(x);
  if (is(y, TermKind::quotient)) y = without_weight(y);
  if (is_exponent(x) && is_exponent(y)) {
    if (terms_[x].negated == terms_[y].negated) return add_scores(x, y);
    return terms_[x].negated ? subtract(y, x) : subtract(x, y);
  }
  if (is_sum(x) && is_sum(y)) return add_sums(x, y);
  if (is(x, TermKind::output) && is(y, TermKind::output)) return add_outputs(x, y);
  if (is(x, TermKind::logarithm) && is(y, TermKind::logarithm)) {
    const Term &a = terms_[x], &b = terms_[y];
    if (a.a == b.a && same(a.b, b.b) && a.set == b.set) return x;  // parts of it
  }
  if (is(x, TermKind::logarithm)) return add_logarithm(y, x);
  if (is(y, TermKind::logarithm)) return add_logarithm(x, y);
  if (is(x, TermKind::difference) && is(y, TermKind::difference)) return add_differences(x, y);
  // A value whose weight is one: its score is the maximum.
  for (const auto& [sum, value] : {std::pair(x, y), std::pair(y, x)}) {
    if (!is(sum, TermKind::output) || !is_input(value)) continue;
    const Term& output = terms_[sum];
    const InputElement v = element(value);
    if (v.array != 2 || !output.b.is_score() || output.b.key() != v.row) continue;
    return add_outputs(
        sum, weigh(make({TermKind::weight, false, 0, output.b, output.b, 0, 0, 0}), value));
  }
  // Products go into what was something else before.
  for (const auto& [score, other] : {std::pair(x, y), std::pair(y, x)}) {
    if (!is(score, TermKind::score) || (!is_sum(other) && !is(other, TermKind::output))) continue;
    Term term = terms_[score];
    term.faults = sets_.unite(term.faults, terms_[other].faults).set;
    if (term.negated && !is_sum(other)) continue;
    if (!term.negated) return note(term, Conflict::partial_of_other, score, other);
    Term difference{TermKind::difference, false, 0, terms_[other].a, term.a, 0, 0, term.faults};
    return note(difference, Conflict::weight_as_score, other, score);
  }
  // (a − b) + b
  for (const auto& [sum, other] : {std::pair(x, y), std::pair(y, x)}) {
    if (!is(sum, TermKind::difference) || !is_exponent(other)) continue;
    Term term = terms_[other];
    if (term.negated || !same(term.a, terms_[sum].b)) continue;
    term.a = terms_[sum].a;
    term.faults = sets_.unite(term.faults, terms_[sum].faults).set;
    return make(term);
  }
  return unknown(x, y);
}

TermId Terms::add_scores(TermId x, TermId y) {
  if (!is(x, TermKind::score) || !is(y, TermKind::score)) return unknown(x, y);
  // Whole ones are a function of the score, as a cap is.
  const bool are_whole = terms_[x].set == all_columns_ && terms_[y].set == all_columns_;
  if (are_whole && terms_[x].a == terms_[y].a) return x;
  // Of a sum and a product that goes into it, the product says whose it is.
  const bool x_is_more = terms_[x].set == all_columns_;
  Term sum = terms_[x_is_more ? y : x];
  const Term& other = terms_[x_is_more ? x : y];
  const auto [set, overlaps] = sets_.unite(sum.set, other.set);
  const bool mixed = sum.a != other.a;
  sum.set = set;
  sum.faults = sets_.unite(sum.faults, other.faults).set;
  if (set == all_columns_ && !overlaps) note_score(sum);
  if (mixed) return note(sum, Conflict::partial_of_other, x, y);
  return overlaps ? note(sum, Conflict::column_twice, x, y) : make(sum);
}

TermId Terms::subtract(TermId x, TermId y) {
  const Term &a = terms_[x], &b = terms_[y];
  Term term{TermKind::difference, false, 0, a.a, b.a, 0, 0, sets_.unite(a.faults, b.faults).set};
  const bool lacks = (a.kind == TermKind::score && a.set != all_columns_) ||
                     (b.kind == TermKind::score && b.set != all_columns_);
  const bool of_other = a.a.row != b.a.row;
  if (lacks) return note(term, Conflict::column_missing, x, y);
  return of_other ? note(term, Conflict::maximum_of_other_row, x, y) : make(term);
}

TermId Terms::add_differences(TermId x, TermId y) {
  Term a = terms_[x];
  const Term& b = terms_[y];
  a.faults = sets_.unite(a.faults, b.faults).set;
  // One of them is a part of it that the other had taken away: as expf reduces its argument.
  if ((a.a == b.a && a.b == b.b) || (a.a == b.b && a.b == b.a)) return x;
  if (same(a.b, b.a)) return a.b = b.b, make(a);
  if (same(a.a, b.b)) return a.a = b.a, make(a);
  return unknown(x, y);
}

TermId Terms::add_logarithm(TermId x, TermId logarithm) {
  const Term log = terms_[logarithm];
  if (x == no_term || is_input(x)) return unknown(x, logarithm);
  Term term = terms_[x];
  const bool fits = same(term.kind == TermKind::difference ? term.b : term.a, log.b);
  term.faults = sets_.unite(term.faults, log.faults).set;
  const TermUnit whole = TermUnit::log_sum(log.a.row, log.set);
  if (term.kind == TermKind::difference && log.negated) {
    term.b = whole;
  } else if (is_exponent(x) && !log.negated && !term.negated) {
    term.kind = TermKind::log_sum;
    term.a = whole;
  } else if (is_exponent(x) && log.negated && term.negated) {
    term.kind = TermKind::log_sum;
    term.a = whole;
  } else {
    return unknown(x, logarithm);
  }
  return fits ? make(term) : note(term, Conflict::logarithm_of_other_unit, x, logarithm);
}

Term Terms::as_sum(TermId x) {
  Term term = terms_[x];
  if (term.kind != TermKind::weight) return term;
  term.kind = TermKind::sum;
  term.set = term.a.is_log_sum() ? term.a.set() : sets_.single(term.a.key());
  return term;
}

TermId Terms::add_sums(TermId x, TermId y) {
  Term a = as_sum(x), b = as_sum(y);
  // What is added says the unit, what it is added to the row.
  const auto length = [&](const Term& term) { return sets_.count(term.set); };
  if (length(a) < length(b)) std::swap(a, b);
  const auto [set, overlaps] = sets_.unite(a.set, b.set);
  Term sum{TermKind::sum, false, 0, {a.a.row, 0}, b.b, set, 0, sets_.unite(a.faults, b.faults).set};
  if (a.a.row != b.a.row) return note(sum, Conflict::sum_of_other_row, x, y);
  if (!same(a.b, b.b)) return note(sum, Conflict::sum_of_other_unit, x, y);
  return overlaps ? note(sum, Conflict::key_twice, x, y) : make(sum);
}

TermId Terms::add_maximum(TermId x) {
  if (!is_sum(x) || !terms_[x].b.is_score()) return x;
  Term one{TermKind::weight, false, 0, terms_[x].b, terms_[x].b, 0, 0, 0};
  const TermId maximum = make(one);
  // It is in the sum already: a sum may start from any number where alpha is 0 at first.
  if (sets_.unite(as_sum(x).set, as_sum(maximum).set).overlaps) return x;
  return add_sums(x, maximum);
}

TermId Terms::add_outputs(TermId x, TermId y) {
  Term a = terms_[x], b = terms_[y];
  if (sets_.count(a.set) < sets_.count(b.set)) std::swap(a, b);
  const auto [set, overlaps] = sets_.unite(a.set, b.set);
  Term sum = a;
  sum.b = b.b;
  sum.set = set;
  sum.values = sets_.unite(a.values, b.values).set;
  sum.faults = sets_.unite(a.faults, b.faults).set;
  if (a.a.row != b.a.row) return note(sum, Conflict::output_of_other_row, x, y);
  if (a.column != b.column) return note(sum, Conflict::output_of_other_column, x, y);
  if (!same(a.b, b.b)) return note(sum, Conflict::output_of_other_unit, x, y);
  return overlaps ? note(sum, Conflict::output_key_twice, x, y) : make(sum);
}

// Functions.

void Terms::tie(TermId x, TermId y) {
  if (!is_score(x) || !is_score(y)) return;
  const TermUnit a = first_of(terms_[x].a), b = first_of(terms_[y].a);
  if (a.row == b.row && a != b) ties_[{b.row, b.at}] = a.at;
}

TermUnit Terms::first_of(TermUnit unit) const {
  // The log-sum-exp over one key is its score.
  if (unit.is_log_sum() && sets_.count(unit.set()) == 1) {
    unit.at = sets_.ranges(unit.set()).front().first + 1;
  }
  for (auto at = ties_.find({unit.row, unit.at}); at != ties_.end();
       at = ties_.find({unit.row, unit.at})) {
    unit.at = at->second;
  }
  return unit;
}

/// What an instruction makes of a sum alone: its inverse or logarithm.
TermId Terms::of_sum(TermId x, TermKind kind) {
  if (!is_sum(x)) return x == no_term ? x : unknown(x, no_term);
  Term term = as_sum(x);
  term.kind = kind;
  term.a = {term.a.row, 0};
  return make(term);
}

TermId Terms::invert(TermId x) {
  // A factor between two maxima, the other way round.
  const bool is_factor = is(x, TermKind::weight) && terms_[x].a.is_score() &&
                         terms_[x].b.is_score() && terms_[x].a != terms_[x].b;
  if (is_factor) {
    Term term = terms_[x];
    std::swap(term.a, term.b);
    return make(term);
  }
  if (!is(x, TermKind::inverse)) return of_sum(x, TermKind::inverse);
  Term term = terms_[x];
  term.kind = TermKind::sum;
  return make(term);
}

TermId Terms::logarithm(TermId x) { return of_sum(x, TermKind::logarithm); }

TermId Terms::exponential(TermId x) {
  if (x == no_term) return x;
  if (is_input(x)) return unknown(x, no_term);
  Term term = terms_[x];
  const TermKind from = std::exchange(term.kind, TermKind::weight);
  if (from == TermKind::difference) {
    note_weight(term);
    return make(term);
  }
  if (from != TermKind::score && from != TermKind::log_sum) return unknown(x, no_term);
  term.b = {term.a.row, 0};
  if (std::exchange(term.negated, false)) std::swap(term.a, term.b);
  note_weight(term);
  const bool lacks = from == TermKind::score && term.set != all_columns_;
  term.set = 0;
  return lacks ? note(term, Conflict::column_missing, x, no_term) : make(term);
}

}  // namespace lanescope::ptx

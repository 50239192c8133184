// What products make of the numbers of attention.

#include <utility>

#include "debug/ptx/terms.h"

namespace lanescope::ptx {

TermId Terms::multiply(TermId x, TermId y) {
  if (x == no_term) return y;
  if (y == no_term) return x;
  if (is_input(x) && is_input(y)) return product_of_inputs(x, y);
  if (is_input(x)) std::swap(x, y);
  if (is_input(y)) {
    // Where 2^x is not one instruction, its argument is all that is known of it.
    const bool weighs = is(x, TermKind::weight) || is(x, TermKind::difference);
    return weighs && terms_[x].a.is_score() ? weigh(x, y) : unknown(x, y);
  }
  if (is(x, TermKind::quotient)) return multiply_quotient(x, y);
  if (is(y, TermKind::quotient)) return multiply_quotient(y, x);
  // A part of the exponent of the other.
  if (is(y, TermKind::difference)) return x;
  if (is(x, TermKind::difference)) return y;
  if (is(x, TermKind::inverse)) std::swap(x, y);
  if (is(y, TermKind::inverse)) return divide_by_sum(x, y);
  if (is(x, TermKind::weight) && (is_sum(y) || is(y, TermKind::output))) return scale(x, y);
  if (is(y, TermKind::weight) && (is_sum(x) || is(x, TermKind::output))) return scale(y, x);
  if (is(x, TermKind::sum) && is(y, TermKind::output)) return scale(x, y);
  if (is(y, TermKind::sum) && is(x, TermKind::output)) return scale(y, x);
  if (is_exponent(x) && is_exponent(y) && terms_[x].a == terms_[y].a) return x;
  if (is(x, TermKind::logarithm) && is(y, TermKind::logarithm)) return x;  // of a series
  return unknown(x, y);
}

TermId Terms::product_of_inputs(TermId x, TermId y) {
  InputElement q = element(x), k = element(y);
  if (q.array > k.array) std::swap(q, k);
  Term term{TermKind::score,        false, 0, TermUnit::score(q.row, k.row), {},
            sets_.single(k.column), 0,     0};
  if (q.array != 0 || k.array != 1) {
    term.kind = TermKind::unknown;
    return note(term, Conflict::wrong_factor, x, y);
  }
  if (q.column != k.column) return note(term, Conflict::column_of_other, x, y);
  if (k.row / sides_.len_kv != head_of_keys(q.row)) return note(term, Conflict::other_head, x, y);
  return make(term);
}

TermId Terms::weigh(TermId weight, TermId value) {
  const Term w = terms_[weight];
  const InputElement v = element(value);
  Term term{TermKind::output,        w.negated,           v.column, {w.a.row, 0}, w.b,
            sets_.single(w.a.key()), sets_.single(v.row), w.faults};
  if (v.array != 2) {
    term.kind = TermKind::unknown;
    return note(term, Conflict::wrong_factor, weight, value);
  }
  return v.row != w.a.key() ? note(term, Conflict::value_of_other_key, weight, value) : make(term);
}

/// x in other units: times 2^(a − b), or the sum of weights that is.
TermId Terms::scale(TermId weight, TermId x) {
  Term w = terms_[weight], term = terms_[x];
  if (w.kind == TermKind::sum) w.a = TermUnit::log_sum(w.a.row, w.set);
  const bool is_part = term.kind == TermKind::sum || term.kind == TermKind::output;
  if (same(w.a, w.b) && is_part && w.a.row != term.a.row) {
    return note(term, Conflict::factor_of_other_row, weight, x);
  }
  if (same(w.a, w.b)) return x;
  if (term.kind == TermKind::weight && same(term.a, term.b)) return weight;
  term.faults = sets_.unite(term.faults, w.faults).set;
  if (term.kind == TermKind::weight && same(w.b, term.a)) return term.a = w.a, make(term);
  const bool fits = same(term.b, w.a);
  const bool of_other_row = term.a.row != w.a.row;
  term.b = w.b;
  if (of_other_row) return note(term, Conflict::factor_of_other_row, weight, x);
  return fits ? make(term) : note(term, Conflict::factor_of_other_unit, weight, x);
}

TermId Terms::divide_by_sum(TermId x, TermId inverse) {
  const Term sum = terms_[inverse];
  if (!is_sum(x) && !is(x, TermKind::output)) return unknown(x, inverse);
  Term term = terms_[x];
  // The weight of the maximum is one: what rows of more keys are divided by is no l, but the factor
  // of a maximum that stays.
  const bool is_one = sum.b.is_score() && sum.set == sets_.single(sum.b.key());
  if (is_one && term.kind != TermKind::weight && term.b == sum.b && term.set != sum.set) return x;
  term.faults = sets_.unite(term.faults, sum.faults).set;
  const bool of_one_row = is_sum(x) && term.a.row == sum.a.row && term.b.row == sum.a.row;
  if (of_one_row && term.b.is_score() && sum.b.is_score() && !same(term.b, sum.b)) {
    const IndexSets::Id set = as_sum(x).set;
    return make({TermKind::quotient, false, 0, term.b, sum.b, set, sum.set, term.faults});
  }
  const TermUnit before = std::exchange(term.b, TermUnit::log_sum(sum.a.row, sum.set));
  if (term.a.row != sum.a.row) return note(term, Conflict::inverse_of_other_row, x, inverse);
  if (!same(before, sum.b)) {
    return note(term,
                before.is_log_sum() && before.row == sum.a.row && before.set() == sum.set
                    ? Conflict::divided_twice
                    : Conflict::inverse_of_other_unit,
                x, inverse);
  }
  // A part of a row may be divided by the l of all of it before the parts are added up.
  const bool is_part = sets_.unite(term.set, sum.set).set == sum.set;
  const bool other_keys = term.kind == TermKind::output && !is_part;
  return other_keys ? note(term, Conflict::inverse_of_other_keys, x, inverse) : make(term);
}

TermId Terms::multiply_quotient(TermId quotient, TermId x) {
  const Term of = terms_[quotient];
  const bool fits = is(x, TermKind::weight) && same(terms_[x].a, of.a) && same(terms_[x].b, of.b);
  if (!fits) return multiply(without_weight(quotient), x);
  const IndexSets::Id faults = sets_.unite(of.faults, terms_[x].faults).set;
  const TermUnit row{of.a.row, 0}, whole = TermUnit::log_sum(of.a.row, of.values);
  if (sets_.count(of.set) != 1)
    return make({TermKind::sum, false, 0, row, whole, of.set, 0, faults});
  const TermUnit key = TermUnit::score(of.a.row, sets_.ranges(of.set).front().first);
  return make({TermKind::weight, false, 0, key, whole, 0, 0, faults});
}

TermId Terms::without_weight(TermId quotient) {
  const Term of = terms_[quotient];
  const TermUnit row{of.a.row, 0}, whole = TermUnit::log_sum(of.a.row, of.values);
  const TermId dividend = make({TermKind::sum, false, 0, row, of.a, of.set, 0, of.faults});
  const TermId divisor = make({TermKind::inverse, false, 0, row, of.b, of.values, 0, 0});
  return note({TermKind::sum, false, 0, row, whole, of.set, 0, of.faults},
              Conflict::inverse_of_other_unit, dividend, divisor);
}

TermId Terms::multiply_row(const TermId* a, const TermId* b, int count, TermId sum) {
  TermId product = score_of_row(a, b, count);
  if (product == no_term) product = score_of_row(b, a, count);
  if (product == no_term) product = output_of_row(a, b, count);
  if (product == no_term) product = output_of_row(b, a, count);
  if (product != no_term) return add(sum, product);
  for (int i = 0; i < count; ++i) {
    if (a[i] == no_term || b[i] == no_term) continue;
    if (a[i] != constant_term && b[i] != constant_term) {
      sum = add(sum, multiply(a[i], b[i]));
    } else if (is_sum(a[i]) || is_sum(b[i])) {
      sum = add(sum, is_sum(a[i]) ? a[i] : b[i]);  // times a one: weights are summed up
    } else if (sum == no_term && (is_input(a[i]) || is_input(b[i]))) {
      sum = is_input(a[i]) ? a[i] : b[i];  // times a row of the unit matrix
    }
  }
  return sum;
}

/// Products of a row of Q and one of K, column by column; nothing where they are others.
TermId Terms::score_of_row(const TermId* a, const TermId* b, int count) {
  ranges_.clear();
  std::uint32_t row = 0, key = 0;
  for (int i = 0; i < count; ++i) {
    if (a[i] == no_term || b[i] == no_term) continue;
    if (!is_input(a[i]) || !is_input(b[i])) return no_term;
    const InputElement q = element(a[i]), k = element(b[i]);
    if (q.array != 0 || k.array != 1 || q.column != k.column) return no_term;
    if (!ranges_.empty() && (q.row != row || k.row != key)) return no_term;
    row = q.row;
    key = k.row;
    if (!ranges_.empty() && q.column < ranges_.back().second) return no_term;
    if (!ranges_.empty() && q.column == ranges_.back().second) {
      ++ranges_.back().second;
    } else {
      ranges_.emplace_back(q.column, q.column + 1);
    }
  }
  if (ranges_.empty() || key / sides_.len_kv != head_of_keys(row)) return no_term;
  const Term score{TermKind::score,      false, 0, TermUnit::score(row, key), {},
                   sets_.id_of(ranges_), 0,     0};
  if (score.set == all_columns_) note_score(score);
  return make(score);
}

/// Products of a row of weights and a column of V, key by key; nothing where they are others.
TermId Terms::output_of_row(const TermId* a, const TermId* b, int count) {
  ranges_.clear();
  const Term* first = nullptr;
  std::uint32_t column = 0;
  for (int i = 0; i < count; ++i) {
    if (a[i] == no_term || b[i] == no_term) continue;  // a weight that is masked
    if (!is(a[i], TermKind::weight) || !is_input(b[i])) return no_term;
    const Term& w = terms_[a[i]];
    const InputElement v = element(b[i]);
    if (v.array != 2 || !w.a.is_score() || w.a.key() != v.row || w.faults != 0) return no_term;
    if (first && (first->a.row != w.a.row || first->b != w.b || column != v.column)) return no_term;
    first = &w;
    column = v.column;
    if (!ranges_.empty() && v.row < ranges_.back().second) return no_term;
    if (!ranges_.empty() && v.row == ranges_.back().second) {
      ++ranges_.back().second;
    } else {
      ranges_.emplace_back(v.row, v.row + 1);
    }
  }
  if (!first) return no_term;
  const IndexSets::Id keys = sets_.id_of(ranges_);
  return make({TermKind::output, false, column, {first->a.row, 0}, first->b, keys, keys, 0});
}

}  // namespace lanescope::ptx

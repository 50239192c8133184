// Which part of attention a number is, followed through arithmetic.

#include "debug/ptx/terms.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "debug/ptx/index_sets.h"
#include "tests/support/catch.h"

namespace lanescope::ptx {
namespace {

using Conflicts = std::vector<Conflict>;
using Ids = std::vector<TermId>;
using Row = std::uint32_t;  // or key, or column
constexpr Row columns = 4;

/// Two batches of four heads of 8 queries; of K and V two of 16 keys.
struct Followed {
  Conflicts met;
  Terms terms{{4, 2, 8, 16, columns, 2, 2}, [this](Conflict conflict, TermId, TermId) {
                met.push_back(conflict);
                return static_cast<std::uint32_t>(met.size() - 1);
              }};

  TermId q(Row row, Row column) { return terms.input(0, row, column); }
  TermId k(Row row, Row column) { return terms.input(1, row, column); }
  TermId v(Row row, Row column) { return terms.input(2, row, column); }

  /// Products of some columns, one after the other.
  TermId score(Row row, Row key, Row from = 0, Row to = columns, TermId sum = no_term) {
    for (Row i = from; i < to; ++i) {
      sum = terms.add(sum, terms.multiply(q(row, i), k(key, i)));
    }
    return sum;
  }
  TermId difference(TermId x, TermId y) { return terms.add(x, terms.negate(y)); }
  TermId weight(Row row, Row key, TermId maximum) {
    return terms.exponential(difference(score(row, key), maximum));
  }
  Ids weights(Row row, Row from, Row to, TermId maximum) {
    Ids all;
    for (Row key = from; key < to; ++key) all.push_back(weight(row, key, maximum));
    return all;
  }
  TermId sum(const Ids& all, TermId sum = no_term) {
    for (const TermId id : all) sum = terms.add(sum, id);
    return sum;
  }
  /// Weights of keys from `from` on, times column 1 of V.
  TermId output(const Ids& weights, Row from, TermId sum = no_term) {
    Ids values;
    for (Row i = 0; i < weights.size(); ++i) values.push_back(v(from + i, 1));
    return terms.multiply_row(weights.data(), values.data(), static_cast<int>(values.size()), sum);
  }

  std::string set(IndexSets::Id id) { return terms.sets().text(id); }
  /// Kind, row, set.
  bool is(TermId id, TermKind kind, Row row, const std::string& keys) {
    const Term& term = terms[id];
    return term.kind == kind && term.a.row == row && set(term.set) == keys;
  }
  /// Row and key, or row and keys.
  std::string unit(TermId id) {
    const TermUnit& b = terms[id].b;
    return std::to_string(b.row) + ":" + (b.is_score() ? std::to_string(b.key()) : set(b.set()));
  }
};

}  // namespace

TEST_CASE("index sets: equal sets have equal names, unions tell what is in both", "[terms]") {
  IndexSets sets;
  const IndexSets::Id three = sets.single(3), four = sets.single(4), nine = sets.id_of({{9, 12}});
  CHECK(sets.unite(three, sets.id_of({})).set == three);
  const auto [both, overlaps] = sets.unite(four, three);
  CHECK(sets.text(both) == "3-4");
  CHECK_FALSE(overlaps);
  CHECK(both == sets.id_of({{3, 5}}));
  const IndexSets::Id all = sets.unite(nine, both).set;
  CHECK(sets.text(all) == "3-4,9-11");
  CHECK(sets.count(all) == 5);
  for (int again = 0; again < 2; ++again) CHECK(sets.unite(all, four).overlaps);
}

TEST_CASE("terms: elements of Q, K and V are named by where they stand", "[terms]") {
  Followed f;
  for (const int array : {0, 1, 2}) {
    const InputElement e = f.terms.element(f.terms.input(array, 63, 3));
    CHECK((e.array == array && e.row == 63 && e.column == 3));
  }
  CHECK(Terms::is_input(f.q(0, 0)));
  CHECK_FALSE((Terms::is_input(f.score(0, 0)) || Terms::is_input(constant_term)));
}

TEST_CASE("terms: products of a row of Q and one of K are a score once all are added", "[terms]") {
  Followed f;
  const TermId half = f.score(5, 2, 0, 2);
  CHECK(f.is(half, TermKind::score, 5, "0-1"));
  CHECK(f.terms.scored().empty());
  CHECK(f.terms[f.score(5, 2, 2, columns, half)].set == f.terms.all_columns());
  const Ids q{f.q(5, 0), f.q(5, 1), f.q(5, 2), f.q(5, 3)};
  const Ids k{f.k(9, 0), f.k(9, 1), f.k(9, 2), f.k(9, 3)};
  const Ids zeroes(4, no_term);
  CHECK(f.is(f.terms.multiply_row(k.data(), q.data(), 4, no_term), TermKind::score, 5, "0-3"));
  CHECK(f.terms.multiply_row(q.data(), zeroes.data(), 4, half) == half);
  f.score(5, 9);  // again
  REQUIRE((f.terms.scored().size() == 6 && f.terms.scored()[5].size() == 2));
  CHECK(f.set(f.terms.scored()[5][0]) == "2-2,9-9");
  CHECK(f.set(f.terms.scored()[5][1]) == "9-9");
  // Of the second batch: its third head takes keys of the fourth in all.
  f.score(2 * 8 + 32, 3 * 16);
  CHECK(f.met.empty());
}

TEST_CASE("terms: products that make no score are told apart", "[terms]") {
  Followed f;
  f.terms.multiply(f.q(0, 1), f.k(0, 2));
  f.terms.multiply(f.q(0, 1), f.k(16, 1));
  f.terms.multiply(f.k(0, 1), f.v(0, 1));
  const TermId part = f.score(0, 3, 0, 3), whole = f.score(0, 3);
  f.terms.add(part, f.score(0, 3, 2, 3));
  const TermId next = f.terms.add(whole, f.score(1, 3, 0, 1));
  CHECK(f.is(next, TermKind::score, 1, "0-3"));
  f.terms.exponential(part);
  f.difference(part, whole);
  f.difference(whole, f.score(1, 3));
  CHECK(f.met == Conflicts{Conflict::column_of_other, Conflict::other_head, Conflict::wrong_factor,
                           Conflict::column_twice, Conflict::partial_of_other,
                           Conflict::column_missing, Conflict::column_missing,
                           Conflict::maximum_of_other_row});
}

TEST_CASE("terms: the online softmax of a row that is rescaled goes together", "[terms]") {
  Followed f;
  const TermId first = f.score(3, 1), second = f.score(3, 6);
  const Ids before = f.weights(3, 0, 4, first), after = f.weights(3, 4, 8, second);
  TermId l = f.sum(before), o = f.output(before, 0);
  CHECK(f.unit(o) == "3:1");
  CHECK(f.terms.is_part(o));
  const TermId alpha = f.terms.exponential(f.difference(first, second));
  l = f.sum(after, f.terms.multiply(l, alpha));
  o = f.output(after, 4, f.terms.multiply(alpha, o));
  CHECK(f.is(l, TermKind::sum, 3, "0-7"));
  CHECK(f.unit(l) == "3:6");
  CHECK(f.unit(o) == "3:6");
  const TermId done = f.terms.multiply(o, f.terms.invert(l));
  CHECK(f.is(done, TermKind::output, 3, "0-7"));
  CHECK(f.set(f.terms[done].values) == "0-7");
  CHECK(f.terms[done].column == 1);
  CHECK(f.unit(done) == "3:0-7");
  CHECK(f.terms[done].faults == 0);
  const TermId lse = f.terms.add(second, f.terms.logarithm(l));
  CHECK(f.terms[lse].kind == TermKind::log_sum);
  CHECK(f.set(f.terms[lse].a.set()) == "0-7");
  CHECK(f.met.empty());
}

TEST_CASE("terms: sums that are not rescaled to a new maximum are told", "[terms]") {
  Followed f;
  const TermId first = f.score(3, 1), second = f.score(3, 6);
  const Ids before = f.weights(3, 0, 4, first), after = f.weights(3, 4, 8, second);
  const TermId l = f.sum(after, f.sum(before));
  const TermId o = f.output(after, 4, f.output(before, 0));
  CHECK(f.met == Conflicts{Conflict::sum_of_other_unit, Conflict::output_of_other_unit});
  const TermId done = f.terms.divide(o, l);
  CHECK(f.met.size() == 2);
  CHECK(f.set(f.terms[done].faults) == "0-1");
}

TEST_CASE("terms: factors of another row or maximum, and dividing by what is not l", "[terms]") {
  Followed f;
  const TermId first = f.score(3, 1), second = f.score(3, 6), of_other = f.score(4, 1);
  const Ids weights = f.weights(3, 0, 4, first);
  const TermId l = f.sum(weights), o = f.output(weights, 0);
  const auto alpha = [&](TermId x, TermId y) { return f.terms.exponential(f.difference(x, y)); };
  const TermId rescaled = f.terms.multiply(o, alpha(first, second));
  CHECK(f.terms.multiply(o, alpha(first, first)) == o);
  f.terms.multiply(rescaled, alpha(first, second));
  f.terms.multiply(o, alpha(of_other, f.score(4, 6)));
  f.terms.divide(rescaled, l);
  f.terms.divide(o, f.sum(f.weights(3, 0, 3, first)));
  f.terms.divide(o, f.sum(f.weights(4, 0, 4, of_other)));
  f.terms.divide(f.terms.divide(o, l), l);
  f.terms.add(second, f.terms.logarithm(l));
  CHECK(f.met == Conflicts{Conflict::factor_of_other_unit, Conflict::factor_of_other_row,
                           Conflict::inverse_of_other_unit, Conflict::inverse_of_other_keys,
                           Conflict::inverse_of_other_row, Conflict::divided_twice,
                           Conflict::logarithm_of_other_unit});
}

TEST_CASE("terms: O stays divided by l where the weight comes behind the division", "[terms]") {
  Followed f;
  const TermId first = f.score(3, 1), second = f.score(3, 6);
  const TermId alpha = f.terms.exponential(f.difference(first, second));
  for (const Row keys : {4, 1}) {
    const Ids before = f.weights(3, 1, 1 + keys, first), after = f.weights(3, 5, 8, second);
    const TermId l = f.sum(before), o = f.terms.divide(f.output(before, 1), l);
    const TermId next = f.sum(after, f.terms.multiply(l, alpha));
    const TermId factor = f.terms.multiply(f.terms.divide(l, next), alpha);
    Ids own = after;
    for (TermId& weight : own) weight = f.terms.divide(weight, next);
    CHECK(f.is(f.output(own, 5, f.terms.multiply(o, factor)), TermKind::output, 3,
               keys == 1 ? "1-1,5-7" : "1-7"));
    CHECK(f.met.empty());
    // Without it, with that of others, or added to something.
    const TermId quotient = f.terms.divide(l, next);
    f.terms.multiply(o, quotient);
    f.terms.multiply(quotient, f.terms.exponential(f.difference(second, first)));
    f.terms.add(quotient, next);
    REQUIRE(f.met.size() >= 3);
    CHECK(std::count(f.met.begin(), f.met.end(), Conflict::inverse_of_other_unit) == 3);
    f.met.clear();
  }
}

TEST_CASE("terms: keys, rows and columns that are added up where they do not belong", "[terms]") {
  Followed f;
  const TermId maximum = f.score(3, 1), of_other = f.score(4, 1);
  const Ids weights = f.weights(3, 0, 4, maximum);
  const TermId l = f.sum(weights), o = f.output(weights, 0);
  f.terms.add(l, weights[2]);
  f.terms.add(l, f.weight(4, 7, of_other));
  f.output({weights[2]}, 2, o);
  f.output(f.weights(4, 4, 8, of_other), 4, o);
  f.terms.add(o, f.terms.multiply(f.weight(3, 5, maximum), f.v(5, 2)));
  CHECK(f.met == Conflicts{Conflict::key_twice, Conflict::sum_of_other_row,
                           Conflict::output_key_twice, Conflict::output_of_other_row,
                           Conflict::output_of_other_column});
  f.met.clear();
  // Rows of V one off: each product tells, the keys are those of the weights.
  const TermId off = f.output(weights, 1);
  CHECK(f.met == Conflicts(4, Conflict::value_of_other_key));
  CHECK(f.is(off, TermKind::output, 3, "0-3"));
  CHECK(f.set(f.terms[off].values) == "1-4");
  CHECK(f.set(f.terms[off].faults) == "0-3");
}

TEST_CASE("terms: masked weights, ones, and weights of the maximum itself", "[terms]") {
  Followed f;
  const TermId maximum = f.score(3, 1);
  Ids weights = f.weights(3, 0, 4, maximum);
  const Ids ones(4, constant_term);
  const TermId l = f.terms.multiply_row(weights.data(), ones.data(), 4, no_term);
  CHECK(f.is(l, TermKind::sum, 3, "0-3"));
  weights[3] = no_term;
  CHECK(f.is(f.output(weights, 0), TermKind::output, 3, "0-2"));
  CHECK(f.is(f.terms.add_maximum(f.sum({weights[0], weights[2]})), TermKind::sum, 3, "0-2"));
  CHECK(f.terms.add_maximum(l) == l);  // which has it
  // A row of Q times a column of the unit matrix.
  const Ids q{f.q(3, 0), f.q(3, 1), f.q(3, 2), f.q(3, 3)},
      unit{no_term, no_term, constant_term, no_term};
  CHECK(f.terms.multiply_row(q.data(), unit.data(), 4, no_term) == q[2]);
  const TermId o = f.terms.multiply(weights[0], f.v(0, 1));
  CHECK(f.is(f.terms.add(o, f.v(1, 1)), TermKind::output, 3, "0-1"));
  f.terms.add(o, f.v(2, 1));  // whose weight is not one
  f.difference(weights[0], maximum);
  CHECK(f.met == Conflicts{Conflict::odd, Conflict::weight_as_score});
}

TEST_CASE("terms: parts of the keys go together by the weights of their log-sum-exps", "[terms]") {
  for (const bool weighted : {true, false}) {
    Followed f;
    Ids outputs, log_sums;
    for (const Row from : {0u, 8u}) {
      const TermId maximum = f.score(3, from + 2);
      const Ids weights = f.weights(3, from, from + 8, maximum);
      const TermId l = f.sum(weights);
      outputs.push_back(f.terms.divide(f.output(weights, from), l));
      log_sums.push_back(f.terms.add(maximum, f.terms.logarithm(l)));
    }
    TermId l = no_term;
    for (const TermId part : log_sums) {
      l = f.terms.add(l, f.terms.exponential(f.difference(part, log_sums[1])));
    }
    CHECK(f.is(l, TermKind::sum, 3, "0-15"));
    const TermId lse = f.terms.add(log_sums[1], f.terms.logarithm(l));
    CHECK(f.set(f.terms[lse].a.set()) == "0-15");
    TermId o = no_term;
    for (int i = 0; i < 2; ++i) {
      const TermId factor = f.terms.exponential(f.difference(log_sums[i], lse));
      o = f.terms.add(o, weighted ? f.terms.multiply(factor, outputs[i]) : outputs[i]);
    }
    CHECK(f.is(o, TermKind::output, 3, "0-15"));
    CHECK(f.met == (weighted ? Conflicts{} : Conflicts{Conflict::output_of_other_unit}));
    if (weighted) CHECK(f.unit(o) == "3:0-15");
  }
}

TEST_CASE("terms: the inverse of a weight between two maxima is the factor the other way round",
          "[terms]") {
  Followed f;
  const TermId first = f.score(3, 1), second = f.score(3, 6);
  const Ids weights = f.weights(3, 0, 4, first);
  const TermId l = f.sum(weights), o = f.output(weights, 0);
  // alpha as 1 / exp(m_new - m_old).
  const TermId inverse = f.terms.exponential(f.difference(second, first));
  const TermId alpha = f.terms.invert(inverse);
  CHECK(f.terms[alpha].kind == TermKind::weight);
  CHECK(f.unit(f.terms.multiply(alpha, l)) == "3:6");
  CHECK(f.unit(f.terms.divide(o, inverse)) == "3:6");
  // The weight of the maximum itself is one: of a maximum that stays.
  CHECK(f.terms.divide(o, weights[1]) == o);
  CHECK(f.terms.divide(l, weights[1]) == l);
  CHECK(f.met.empty());
  // Of a single key it is l.
  CHECK(f.unit(f.terms.divide(f.output({weights[1]}, 1), weights[1])) == "3:1-1");
  CHECK(f.unit(f.terms.divide(weights[1], weights[1])) == "3:1-1");
  f.terms.divide(o, f.weight(3, 6, second));
  CHECK(f.met == Conflicts{Conflict::inverse_of_other_unit});
}

TEST_CASE("terms: a whole score added to itself is a function of it, as a cap is", "[terms]") {
  Followed f;
  const TermId whole = f.score(5, 2), half = f.score(5, 2, 0, 2);
  CHECK(f.terms.add(whole, whole) == whole);
  CHECK(f.is(f.terms.add(whole, f.score(5, 2)), TermKind::score, 5, "0-3"));
  CHECK(f.met.empty());
  f.terms.add(half, half);
  f.terms.add(whole, half);
  f.terms.add(whole, f.score(5, 3));
  CHECK(f.met ==
        Conflicts{Conflict::column_twice, Conflict::column_twice, Conflict::partial_of_other});
}

}  // namespace lanescope::ptx

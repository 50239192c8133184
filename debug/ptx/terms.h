#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "debug/ptx/index_sets.h"

namespace lanescope::ptx {

/// What weights are relative to: nothing, the score of a query row and a key, which is a maximum,
/// or the log-sum-exp of a row over a set of keys.
struct TermUnit {
  std::uint32_t row = 0;
  std::uint32_t at = 0;  ///< 0, key + 1, or of_keys | set

  static constexpr std::uint32_t of_keys = 1u << 31;
  static TermUnit score(std::uint32_t row, std::uint32_t key) { return {row, key + 1}; }
  static TermUnit log_sum(std::uint32_t row, IndexSets::Id set) { return {row, of_keys | set}; }
  bool is_none() const { return at == 0; }
  bool is_score() const { return at != 0 && at < of_keys; }
  bool is_log_sum() const { return at >= of_keys; }
  std::uint32_t key() const { return at - 1; }
  IndexSets::Id set() const { return at & ~of_keys; }
  bool operator==(const TermUnit&) const = default;
};

/// Which part of attention a number is. Rows are those of Q over batches and heads, keys rows of K
/// and V likewise.
enum class TermKind : std::uint8_t {
  unknown,     ///< something of them that is none of these
  score,       ///< Σ over columns of q·k; all of them, or `set`; scaled by whatever
  difference,  ///< a − b, of scores or log-sum-exps
  weight,      ///< 2^(a − b)
  sum,         ///< of the weights of `set` of the row a.row, in units b
  inverse,     ///< of such a sum
  logarithm,   ///< of such a sum
  log_sum,     ///< b + that: a is what it is
  output,      ///< Σ over `set` of weight · v, in units b, `column` of V
  /// The sum of `set` in units a over that of `values` in units b: the weight 2^(a − b), which
  /// makes a part of one of it, may come behind it, as in O · l / l' · alpha.
  quotient,
};

struct Term {
  TermKind kind = TermKind::unknown;
  bool negated = false;
  std::uint32_t column = 0;  ///< of an output
  TermUnit a, b;
  IndexSets::Id set = 0;     ///< columns of a score, keys of a sum or output
  IndexSets::Id values = 0;  ///< of an output: the rows of V
  IndexSets::Id faults = 0;  ///< conflicts that it has in it
};

/// How terms do not go together that an instruction puts together.
enum class Conflict : std::uint8_t {
  column_of_other,   ///< columns of q and k differ in a product
  partial_of_other,  ///< products of other rows are added to those of a score
  column_twice,
  column_missing,   ///< a score is used that lacks columns
  other_head,       ///< q and k of heads that do not belong together
  wrong_factor,     ///< q and k, weight and v: another pair is multiplied
  weight_as_score,  ///< a maximum is taken from a weight
  value_of_other_key,
  maximum_of_other_row,
  sum_of_other_row,
  sum_of_other_unit,  ///< a maximum changed, and what was summed before was not rescaled
  key_twice,
  output_of_other_row,
  output_of_other_column,
  output_of_other_unit,
  output_key_twice,
  factor_of_other_row,
  factor_of_other_unit,
  inverse_of_other_row,
  inverse_of_other_unit,
  inverse_of_other_keys,
  divided_twice,
  logarithm_of_other_unit,
  odd,  ///< whatever else
};

/// Names of terms: 0 is a number that no input is in; inputs are named by their element.
using TermId = std::uint32_t;
inline constexpr TermId no_term = 0;
/// A number of a matrix that is not 0, and that no input is in.
inline constexpr TermId constant_term = 1;

/// An element of Q (0), K (1) or V (2).
struct InputElement {
  int array;
  std::uint32_t row, column;
};

/// The numbers of attention, and what arithmetic makes of them.
class Terms {
 public:
  struct Sides {
    std::uint32_t heads, heads_kv, len_q, len_kv, columns;
    std::uint32_t element_bytes, output_bytes;  ///< of an element of Q, K and V; of O
  };
  /// `report`: takes a conflict of two terms and returns its name among the faults.
  Terms(const Sides& sides, std::function<std::uint32_t(Conflict, TermId, TermId)> report);

  static bool is_input(TermId id) { return id >> 31 != 0; }
  TermId input(int array, std::uint32_t row, std::uint32_t column) const {
    return 1u << 31 | static_cast<std::uint32_t>(array) << 29 | (row * sides_.columns + column);
  }
  InputElement element(TermId id) const {
    const std::uint32_t at = id & ((1u << 29) - 1);
    return {static_cast<int>(id >> 29 & 3), at / sides_.columns, at % sides_.columns};
  }
  /// The column or row of an input; the key of a weight.
  std::optional<std::uint32_t> index_of(TermId id, bool by_column) const {
    if (id == no_term) return std::nullopt;
    if (is_input(id)) return by_column ? element(id).column : element(id).row;
    const bool has_key = is(id, TermKind::weight) && terms_[id].a.is_score();
    return has_key ? std::optional(terms_[id].a.key()) : std::nullopt;
  }
  const Term& operator[](TermId id) const { return terms_[id]; }
  IndexSets& sets() { return sets_; }
  const IndexSets& sets() const { return sets_; }
  const Sides& sides() const { return sides_; }
  IndexSets::Id all_columns() const { return all_columns_; }

  TermId add(TermId x, TermId y);
  TermId negate(TermId x);
  TermId multiply(TermId x, TermId y);
  TermId divide(TermId x, TermId y) { return multiply(x, invert(y)); }
  TermId invert(TermId x);
  TermId exponential(TermId x);
  /// x and the weight of the maximum itself, which is one.
  TermId add_maximum(TermId x);
  /// P·V of several keys.
  bool is_part(TermId x) const { return is(x, TermKind::output) && sets_.count(terms_[x].set) > 1; }
  bool is_difference(TermId x) const { return is(x, TermKind::difference); }
  bool is_output(TermId x) const { return is(x, TermKind::output); }
  /// A sum, or an output, of several keys in units of a maximum.
  bool is_relative(TermId x) const {
    const bool sums = is(x, TermKind::sum) || is(x, TermKind::output);
    return sums && !terms_[x].b.is_log_sum();
  }
  bool is_score(TermId x) const { return is(x, TermKind::score); }
  bool is_logarithm(TermId x) const { return is(x, TermKind::logarithm); }
  bool is_sum(TermId x) const { return is(x, TermKind::weight) || is(x, TermKind::sum); }
  TermId logarithm(TermId x);
  /// Two scores of a row have the same value: as maxima they are one.
  void tie(TermId x, TermId y);
  /// `sum` and the products of a row of a matrix and a column of another: of Q and K, weights and
  /// V.
  TermId multiply_row(const TermId* a, const TermId* b, int count, TermId sum);

  /// By row: keys whose scores with it were made, of all columns; behind those, keys whose scores
  /// were made twice, and so on.
  const std::vector<std::vector<IndexSets::Id>>& scored() const { return scored_; }
  /// By row: keys of whose scores powers were taken.
  const std::vector<IndexSets::Id>& weighed() const { return weighed_; }

 private:
  TermId make(Term term);
  void note_score(const Term& score);
  void note_weight(const Term& weight);
  TermId note(Term term, Conflict conflict, TermId x, TermId y);
  TermId unknown(TermId x, TermId y);
  TermId product_of_inputs(TermId x, TermId y);
  TermId weigh(TermId weight, TermId value);
  TermId scale(TermId weight, TermId x);
  TermId divide_by_sum(TermId x, TermId inverse);
  TermId multiply_quotient(TermId quotient, TermId x);
  /// A quotient whose weight does not come.
  TermId without_weight(TermId quotient);
  TermId add_scores(TermId x, TermId y);
  TermId subtract(TermId x, TermId y);
  TermId add_sums(TermId x, TermId y);
  TermId add_outputs(TermId x, TermId y);
  TermId add_differences(TermId x, TermId y);
  TermId add_logarithm(TermId x, TermId logarithm);
  TermId score_of_row(const TermId* a, const TermId* b, int count);
  TermId output_of_row(const TermId* a, const TermId* b, int count);
  /// A weight, or what stands for one, as the sum of one key.
  Term as_sum(TermId x);
  TermId of_sum(TermId x, TermKind kind);
  bool is(TermId x, TermKind kind) const {
    return x != no_term && !is_input(x) && terms_[x].kind == kind;
  }
  bool is_exponent(TermId x) const { return is(x, TermKind::score) || is(x, TermKind::log_sum); }
  IndexSets::Id faults_of(TermId x) const {
    return x == no_term || is_input(x) ? 0 : terms_[x].faults;
  }
  std::uint32_t head_of_keys(std::uint32_t query_row) const;
  /// The one that stands for all scores that are as large.
  TermUnit first_of(TermUnit unit) const;
  bool same(TermUnit x, TermUnit y) const { return first_of(x) == first_of(y); }

  Sides sides_;
  std::function<std::uint32_t(Conflict, TermId, TermId)> report_;
  IndexSets sets_;
  IndexSets::Id all_columns_;
  std::vector<Term> terms_;
  std::vector<std::vector<IndexSets::Id>> scored_;
  std::vector<IndexSets::Id> weighed_;
  std::vector<IndexSets::Range> ranges_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ties_;  ///< by TermUnit
};

}  // namespace lanescope::ptx

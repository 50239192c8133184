#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gates/run/judge_terms.h"
#include "gates/run/placement.h"
#include "gates/run/term_rows.h"

namespace lanescope {

/// What is wrong with the terms of wrong rows, and what that is called.
class TermJudging : public TermRows {
 public:
  using TermRows::TermRows;
  TermJudgement judge();

 private:
  using Conflict = ptx::Conflict;
  using Samples = std::vector<std::pair<Term, Term>>;
  /// A kind of conflict, with all instructions that have it.
  struct Found {
    Conflict conflict = Conflict::odd;
    double share = 0;
    std::int64_t count = 0;
    std::vector<std::string> lines;
    Samples samples;                                ///< of wrong rows, or all
    std::map<std::int64_t, std::int64_t> roads[2];  ///< of all samples' terms
    std::int64_t ordered[2] = {}, disordered[2] = {};
    /// Whether the first terms (0) or the second ones (1) alone are not in order.
    bool is_disordered(int side) const {
      return ordered[side] == 0 && disordered[side] > 0 && disordered[1 - side] == 0 &&
             ordered[1 - side] > 0;
    }
    std::vector<std::int64_t> rows;  ///< wrong ones that have it
    const Provenance::Meeting* first = nullptr;
    bool sums_too = false;           ///< weights of other rows are summed up as well
    bool outputs_too = false;        ///< P·V of other units is added up as well
    bool output_keys_twice = false;  ///< P·V of keys that O has is added to it as well
  };

  /// The first on the way that wrong rows have and right ones do not.
  std::optional<Found> first_conflict() const;
  bool sees_others() const;
  static bool adds_to_weights(const Provenance::Meeting& meeting);
  void add(const Provenance::Meeting& meeting, Found& found) const;
  TermFault of_conflict(const Found& found) const;

  // Names the cause and the stage of a conflict, and says what it is.

  void explain(const Found& found, TermFault& fault, std::string& what) const;
  void explain_products(const Found& found, TermFault& fault, std::string& what) const;
  bool goes_on_behind_own(const Found& found) const;
  void explain_heads(const Found& found, TermFault& fault, std::string& what) const;
  void explain_rows(const Found& all, TermFault& fault, std::string& what) const;
  void explain_repeated_keys(const Found& found, TermFault& fault, std::string& what) const;
  void explain_rows_of_inverses(const Found& found, TermFault& fault, std::string& what) const;

  void explain_values(const Found& found, TermFault& fault, std::string& what) const;
  bool explain_strided_heads(const Found& found, TermFault& fault, std::string& what) const;
  void explain_heads_of_values(const Found& found, TermFault& fault, std::string& what) const;
  bool explain_order_of_values(const Found& found, TermFault& fault, std::string& what) const;

  void explain_units(const Found& found, TermFault& fault, std::string& what) const;
  void explain_keys_of_inverses(const Found& found, TermFault& fault, std::string& what) const;
  void explain_inverses(const Found& found, TermFault& fault, std::string& what) const;
  void explain_factors(const Found& found, TermFault& fault, std::string& what) const;
  void explain_sums_of_units(const Found& found, TermFault& fault, std::string& what) const;

  // Where tiles lie, and as what they are taken.

  Placement placement(int kind) const;
  bool explain_place(const Found& found, TermFault& fault, std::string& what) const;
  std::optional<bool> agrees(const Found& found, const std::pair<Term, Term>& sample, int kind,
                             const Placement& tile, const Placement::Taken& taken) const;
  std::optional<bool> is_writer_wrong(const Placement& tile, int kind,
                                      const ElementLayout& layout) const;
  bool is_odd(int kind, int other) const;
  bool is_disordered(int kind) const;
  std::optional<TermFault> of_places() const;
  void tell_disorder(const Found& found, TermFault& fault) const;

  // The lines of a fault.

  void tell_lines(const Found& found, TermFault& fault) const;
  std::map<Stage, std::vector<std::string>> stage_lines() const;
  void tell_operand(const Found& found, TermFault& fault) const;
  std::vector<std::vector<std::string>> roads_of(
      const std::map<std::int64_t, std::int64_t>& counts) const;

  /// A part of a sum is added to itself where another should be: an exchange between lanes failed.
  bool adds_itself(const Found& found) const {
    return most_of(found.samples, [](const Term& x, const Term& y) {
      return x.set == y.set && x.a.keys == y.a.keys;
    });
  }
  /// Keys that rows see and that they have no scores with, of half of the rows.
  bool skips_keys(const Found& found) const {
    const auto skipping = std::count_if(found.rows.begin(), found.rows.end(),
                                        [&](std::int64_t row) { return lacks_scores(row); });
    return 2 * skipping > std::ssize(found.rows);
  }
  static bool is_output(const Found& found) {
    return std::any_of(found.samples.begin(), found.samples.end(), [](const auto& sample) {
      return sample.first.kind == "output" || sample.second.kind == "output";
    });
  }
  /// Whether f(one term, the other) holds of nearly all samples.
  template <class F>
  static bool most_of(const Samples& samples, F&& f) {
    const auto hits = std::count_if(samples.begin(), samples.end(), [&](const auto& sample) {
      return f(sample.first, sample.second);
    });
    return 5 * hits >= 4 * std::ssize(samples) && hits > 0;
  }

  // Outputs whose parts all go together.

  /// Whether a row's terms are of another row, and the keys that it sees are its own.
  bool visible_as(std::int64_t row, std::int64_t other, const Set& keys) const {
    return visible(row) == keys && visible(other) != keys;
  }
  std::optional<TermFault> of_outputs();
  void tell_order_of_values(TermFault& fault, std::string& what) const;
  std::optional<std::int64_t> stride_of_values(const Samples& samples) const;
  std::optional<bool> lacks_alone(std::int64_t row, const Set& want) const;
  bool divides_by_all(std::int64_t row, const Set& want) const;
  std::string other_keys(std::int64_t row, const Set& keys, TermFault& fault) const;

  bool tiles_unmasked_ = false;    ///< rows see keys up to the end of a tile of 16 or more
  std::set<Set> left_out_;         ///< keys that wrong rows lack, from their head's first on
  std::set<std::int64_t> limits_;  ///< by how many keys wrong rows see more
  bool masks_ = false;             ///< there are rows that see some keys alone
};

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gates/run/provenance.h"
#include "reference/problem.h"

namespace lanescope {

/// The rows of a problem, wrong ones among them, and what a run made of them. Rows and keys are
/// counted over batches and heads.
class TermRows {
 public:
  using Set = Provenance::Set;
  using Term = Provenance::Term;
  using Unit = Provenance::Unit;

  /// `tile`: keys that the kernel takes at a time.
  TermRows(const Provenance& provenance, const Problem& problem, std::int64_t tile,
           const std::vector<std::int64_t>& wrong)
      : all_(provenance),
        p_(problem),
        tile_(tile),
        wrong_(wrong),
        is_wrong_(wrong.begin(), wrong.end()) {}

 protected:
  std::int64_t head_of(std::int64_t row) const { return row / p_.len_q; }
  std::int64_t first_key_of(std::int64_t row) const {
    const std::int64_t head = head_of(row);
    return (head / p_.heads * p_.heads_kv + p_.kv_head(head % p_.heads)) * p_.len_kv;
  }
  std::int64_t tile_of(std::int64_t key) const { return key % p_.len_kv / tile_; }
  Set visible(std::int64_t row) const {
    const std::int64_t keys = p_.visible_keys(row % p_.len_q), first = first_key_of(row);
    return keys > 0 ? Set{{first, first + keys - 1}} : Set{};
  }
  /// As people count them, within a head.
  std::string keys_text(const Set& set) const;
  std::string row_text(std::int64_t row) const;
  std::string key_text(std::int64_t key) const;
  std::string term_text(const Term& term) const;
  /// What O and the log-sum-exp of a row are: f(output, whether it is the log-sum-exp).
  template <class F>
  void each_output(std::int64_t row, F&& f) const {
    for (const auto* site : {&all_.o, &all_.lse}) {
      const auto at = site->find(row);
      if (at == site->end()) continue;
      for (const Provenance::Output& output : at->second) f(output, site == &all_.lse);
    }
  }
  /// Whether none of its scores was ever made, though those of other rows were.
  bool lacks_all_scores(std::int64_t row) const;
  std::int64_t times_scored(std::int64_t row, std::int64_t key) const;
  /// Whether keys have no scores with it that it sees.
  bool lacks_scores(std::int64_t row) const {
    const auto scored = all_.scored.find(row);
    return scored != all_.scored.end() && !without(visible(row), scored->second[0]).empty();
  }
  /// Whether all that wrong rows are is what they should be.
  bool are_whole() const;

  const Provenance& all_;
  const Problem& p_;
  std::int64_t tile_;
  const std::vector<std::int64_t>& wrong_;
  std::set<std::int64_t> is_wrong_;
};

}  // namespace lanescope

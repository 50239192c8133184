#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "debug/causes/flaw_trial.h"
#include "debug/causes/scene.h"

namespace lanescope {

/// What the text of a flaw is known by, in whatever problem: without numbers, then also without
/// what splits have, then without the order of the tiles.
struct FlawNames {
  std::string words, kind, kind_in_any_order;
};

/// Holds flaws that explain one run of a kernel against the inputs, and the outputs, of another.
class FlawContest {
 public:
  /// `dump` must outlive the contest; of its tensors the inputs are enough but for `explains`.
  explicit FlawContest(const Dump& dump);

  /// Whether the flaw of a finding makes the outputs of the dump what they are; `first`: where they
  /// are wrong, the same in all calls.
  bool explains(const Finding& finding, const Divergence& first);
  /// Of outputs that are looked at, how many do not follow from a flaw that explains them: some may
  /// be off by chance. 0 where this problem has none of its words.
  int missed(const Finding& finding, const Divergence& first);
  /// The flaw that a kernel has besides that of a finding, where its outputs are those of both.
  /// Not certain where others do as well with as few choices.
  std::optional<Finding> beside(const Finding& finding, const Divergence& first);
  /// Whether this problem can have the flaw: one of two tiles has no second of three splits.
  bool can_have(const Finding& finding) const { return find(finding.flaw).has_value(); }
  /// Whether outputs would be wrong with it.
  bool shows(const Finding& finding);
  /// Whether outputs would be others with one than with the other.
  bool differ(const Finding& one, const Finding& other);

 private:
  struct Sample {
    std::int64_t batch, head, query;
  };
  std::optional<Flaw> find(const std::string& text) const;
  /// `explains`, of a kernel that rounds as the plans of `inputs_` do.
  bool explains_plainly(const Finding& finding, const std::vector<OutputRow>& rows);
  const std::vector<OutputRow>& rows_of(const Divergence& first);
  std::vector<PlannedRow> outputs_with(const Flaw* flaw);
  bool are_others(const std::vector<PlannedRow>& one, const std::vector<PlannedRow>& other) const;

  const Dump& dump_;
  PlanInputs inputs_;
  std::vector<Sample> samples_;
  std::vector<OutputRow> rows_;
  std::vector<Flaw> flaws_;              ///< known ones first
  std::vector<const FlawNames*> names_;  ///< theirs
  std::size_t known_ = 0;
  std::unordered_map<std::string, std::size_t> by_text_, by_words_;
};

}  // namespace lanescope

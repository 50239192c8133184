#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "debug/causes/causes.h"
#include "gates/run/provenance.h"
#include "reference/problem.h"
#include "reference/site.h"

namespace lanescope {

/// What is wrong with how the numbers of a run are put together.
struct TermFault {
  Cause cause = Cause::unexplained;
  Stage stage = Stage::load;
  /// Another stage that it may as well be.
  std::optional<Stage> or_stage = {};
  bool stage_is_told = false;  ///< by what stands in order, and what does not
  bool of_weights = false;     ///< exponents are wrong, of the weights of scores
  bool of_outputs = false;     ///< all terms go together: outputs lack some, or have others
  bool meets_zeros = false;    ///< weights are multiplied by zeros, where V should be
  bool loses_weights = false;  ///< keys are in no sum whose weights were made
  bool lacks_scores = false;   ///< keys are left out that the row has no scores with
  bool of_nothing = false;     ///< what a sum has too much is a one
  bool of_place = false;       ///< a tile lies in another way than it is taken
  bool of_tensors = false;     ///< an operand is one of another tensor
  bool of_columns = false;     ///< columns of Q and K are multiplied that are not the same
  double share = 0;            ///< of the wrong rows that have it
  std::optional<int>
      operand;  ///< Q (0), K (1) or V (2), whose elements are others than they should
  std::vector<std::string> evidence;
  std::vector<std::string> lines;  ///< of the source, where it shows first
};

/// What the terms of wrong rows say.
struct TermJudgement {
  std::optional<TermFault> fault;
  /// All of them are put together as they should be: numbers are wrong, not which.
  bool is_whole = false;
  /// Of each wrong row some weight was made that did not vanish.
  bool weighs = false;
  /// Rows have keys that they do not see: a mask took others for them.
  bool sees_others = false;
  Provenance::Outline outline;
  /// By stage: lines that do what it does, those of wrong outputs of the epilogue.
  std::map<Stage, std::vector<std::string>> lines;
};

/// `tile`: keys that the kernel takes at a time; `wrong`: rows of the outputs that are wrong, over
/// batches and heads.
TermJudgement judge_terms(const Provenance& provenance, const Problem& problem, std::int64_t tile,
                          const std::vector<std::int64_t>& wrong);

}  // namespace lanescope

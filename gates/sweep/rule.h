#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gates/sweep/result.h"

namespace lanescope {

/// Conditions on the sides of a cell, all of which hold, and the cells where they do, but for those
/// of clauses before.
struct Clause {
  std::vector<std::string> conditions;    ///< "skv % Bc != 0", "causal"
  std::int64_t failing = 0, passing = 0;  ///< of the cells
  std::vector<std::string> exceptions;    ///< commands of passing ones, three at most
  std::string text() const;               ///< "skv % Bc != 0 and causal"
};

/// When cells fail: whenever one of the clauses holds.
struct Rule {
  std::int64_t cells = 0, failing = 0;
  std::vector<Clause> clauses;   ///< none: nothing that is shorter than a list of the failing
  std::int64_t unexplained = 0;  ///< failing cells of no clause
  std::vector<std::string> exceptions;  ///< commands of those, three at most
};

/// Learnt from cells of one kernel that match or fail (others are left out): the decision list that
/// says with the fewest bits which cells fail, conditions and exceptions counted alike (minimum
/// description length; Rissanen, "Modeling by shortest data description", Automatica 1978; clauses
/// one after the other as in Clark, Niblett, "The CN2 induction algorithm", Machine Learning 1989).
/// Conditions are on sides, tiles (ceil(s / Br), ceil(skv / Bc)), heads per kv head, residues (of
/// the tile and of 2 to 32), how s and skv compare, mask, type, tile, input, gate. Deterministic.
Rule learn_rule(const std::vector<CellResult>& results);

}  // namespace lanescope

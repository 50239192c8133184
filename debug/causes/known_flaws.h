#pragma once

#include <functional>
#include <string>
#include <vector>

#include "debug/causes/causes.h"
#include "debug/causes/row_plan.h"
#include "reference/site.h"

namespace lanescope {

/// A bug that attention kernels are known to have, as what it makes of a row's plan.
struct Flaw {
  Cause cause;
  Stage stage;       ///< where the bug is
  std::string text;  ///< completes "the outputs are those of attention ..."
  int choices;       ///< numbers in it that were free to choose: of two that fit, fewer is likelier
  std::function<void(RowPlan&)> edit;
};

/// Two at once: what the first is, and has for its cause; the second is said behind `besides`.
inline constexpr const char* besides = ", and besides attention ";
Flaw both_of(const Flaw& one, const Flaw& other);

/// Those that make a difference to some row of a problem. Each with every value of its parameters
/// that is worth a try: tiles of the kernel's size first, then of other sizes in use.
std::vector<Flaw> known_flaws(const DumpInfo& info);

/// Thousands more that are put together: an operand, what becomes of it, the part of a tile, the
/// tiles. They take more words, so they are tried where none of the others fits.
std::vector<Flaw> composed_flaws(const DumpInfo& info);

}  // namespace lanescope

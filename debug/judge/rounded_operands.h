#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "debug/dump/dump.h"
#include "reference/site.h"

namespace lanescope {

/// A kernel of f32 whose O follows from operands of fewer bits.
struct RoundedOperands {
  std::vector<std::string> what;  ///< "Q and K are rounded to tf32", "P is rounded to f16"
  Stage stage{};                  ///< the first in which they are
  bool products_of_tf32 = false;  ///< both factors of a product are rounded so
  std::int64_t rows = 0;          ///< of O that were looked at
  double error = 0;               ///< root of the mean square, to O of the operands as given
  double error_of_rounded = 0;    ///< the same to O of the rounded ones
  /// `what` in one line.
  std::string what_text() const;
  /// A line for each of `what`, and how far O is from the kernel's.
  std::vector<std::string> text() const;
};

/// A bound holds for whatever order the sums have, and grows with their length, while errors of
/// f32 mostly cancel: fewer bits of operands may hide in it. So O of some rows is computed, in
/// double, from operands that are rounded in each way that is in use, and where that is what the
/// kernel has, to a sixteenth of its error, this is how it computes. Nothing of dumps of
/// other types, and where products that are declared as those of tf32 are all there is.
std::optional<RoundedOperands> find_rounded_operands(const Dump& dump);

}  // namespace lanescope

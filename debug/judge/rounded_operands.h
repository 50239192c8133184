#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "debug/dump/dump.h"
#include "reference/site.h"

namespace lanescope {

/// To what a kernel of f32 may round a number that it computes with. tf32: to nearest, as
/// cvt.rna.tf32 does; tf32_cut: to the leading bits, which is what a matrix unit takes of f32 that
/// is not converted (PTX ISA, mma, .tf32).
enum class Rounding : std::uint8_t { none, tf32, tf32_cut, f16, bf16 };

/// How a kernel of f32 rounds what it computes with.
struct Roundings {
  Rounding q = Rounding::none, k = Rounding::none, s = Rounding::none, p = Rounding::none,
           v = Rounding::none, o = Rounding::none;
  /// What is rounded of a score: it in base 2, in base e, or Q·K.
  ScoreUnit s_unit = ScoreUnit::base_e;
  /// What is rounded of a weight: it relative to the maximum so far, to that of its tile, to that
  /// of all keys, or divided by l.
  enum class Weight : std::uint8_t { so_far, of_tile, of_all, divided } weight = Weight::so_far;
  bool sums_rounded = false;  ///< l sums up the rounded weights
};

/// A kernel of f32 whose O follows from operands of fewer bits.
struct RoundedOperands {
  std::vector<std::string> what;  ///< "Q and K are rounded to tf32", "P is rounded to f16"
  Stage stage{};                  ///< the first in which they are
  bool products_of_tf32 = false;  ///< both factors of a product are rounded so
  std::int64_t values = 0;        ///< of O that were looked at
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
/// kernel has, to a quarter of its error at most, this is how it computes. Nothing of dumps of
/// other types, and where products that are declared as those of tf32 are all there is.
std::optional<RoundedOperands> find_rounded_operands(const Dump& dump);

}  // namespace lanescope

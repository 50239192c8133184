#pragma once

#include <cstdint>
#include <map>

#include "debug/ptx/syntax.h"

namespace lanescope::ptx {

/// A sum that ptxas computes with one of its products as one fused multiply-add.
struct Contraction {
  std::uint32_t product = 0;  ///< the statement of the mul
  std::size_t addend = 2;     ///< the operand of the sum that is added
  bool negates_product = false, negates_addend = false;
};

/// The sums of a function that ptxas contracts, by their statements. PTX lets it: "mul/add
/// sequences with no rounding modifiers may be optimized to use fused-multiply-add" (PTX ISA,
/// "add"). What it does, seen in the machine code that ptxas 13.0 makes for sm_80 and sm_90: a
/// product is contracted where all its uses are sums of the same type and .ftz in the same basic
/// block, also through mov and neg, and into all of them; else into none. One with a constant or a
/// parameter of the kernel for a factor may be in a block before, but in no loop that is left. Of
/// two products in a sum that with fewer uses is contracted, of equals the first. `injects`: a
/// product that a marker may replace is not contracted.
std::map<std::uint32_t, Contraction> find_contractions(const Function& function,
                                                       bool injects = false);

}  // namespace lanescope::ptx

#pragma once

#include <cstdint>

#include "debug/simt/hopper.h"
#include "debug/simt/numerics.h"

namespace lanescope::simt {

/// A warp's 16 rows of a product, as an H200 computes it: d[column][row], `what.n` columns, of the
/// 32 bytes of each row of a and of each column of b. Sums of f16 are floats in d, of s32 it holds
/// their bits. a is negated in place where the product is.
void multiply(const Product& what, TensorCoreRule rule, std::uint16_t (&a)[16][16],
              const std::uint16_t (*b)[16], float (*d)[16]);

}  // namespace lanescope::simt

#pragma once

#include <cstdint>

#include "reference/tensor.h"

namespace lanescope {

/// A tensor as e4m3 with one scale per head.
struct Quantised {
  Tensor elements;  ///< e4m3, as the tensor
  Tensor scales;    ///< f32 [batch, heads]; a value is its element times its head's scale
  std::int64_t saturated = 0;  ///< values beyond the largest of their head: infinities
};

/// `from` [batch, heads, length, d] with, for each head, scale = largest magnitude / 448, rounded
/// to f32: the largest value then is the largest number of e4m3, so that all of its range is used,
/// and heads differ in their scale. (A power of two would lose nothing in the scaling, but take up
/// to a bit of the range, and most heads would share it: a scale taken from a wrong head would not
/// show.) Elements are value / scale rounded to nearest even, saturating. NaN stays NaN; it and
/// infinities have no say in the scale. A head of zeros has scale 1, and no scale is below 2^-126.
Quantised quantise(const Tensor& from);

}  // namespace lanescope

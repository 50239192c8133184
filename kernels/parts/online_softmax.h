#pragma once

#include "kernels/device/device.h"

namespace lanescope::kernels {

// Pieces of the online softmax (FlashAttention-2, Algorithm 1, lines 9 and 10) that do not depend
// on how a kernel holds its scores. All in base 2: scores carry the factor log2(e).

/// What to subtract from the scores of a row with maximum m. A row that has seen no key yet has
/// m = −inf, and −inf − (−inf) would be NaN: subtracting 0 leaves p = 2^−inf = 0.
LANESCOPE_DEVICE float shift_of(float m) { return m == device::minus_infinity ? 0.0f : m; }

/// alpha = 2^(m_prev − m): what l and o are multiplied by when the maximum rises from m_prev to m.
LANESCOPE_DEVICE float rescale(float m_prev, float m) { return device::ex2(m_prev - shift_of(m)); }

/// 1 / l, and 0 for a row that sees no key (l = 0), so that its output is 0. A NaN stays a NaN.
LANESCOPE_DEVICE float inverse_sum(float l) { return l == 0.0f ? 0.0f : 1.0f / l; }

/// Natural log-sum-exp of the scaled scores of a row: (m + log2 l) · ln 2; −inf without any key.
LANESCOPE_DEVICE float log_sum_exp(float m, float l) {
  return l == 0.0f ? device::minus_infinity : (m + device::lg2(l)) * device::ln2;
}

}  // namespace lanescope::kernels

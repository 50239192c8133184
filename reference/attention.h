#pragma once

#include <vector>

#include "reference/inputs.h"

namespace lanescope::reference {

/// Attention in double, row-major. Rows that see no key: o = 0, lse = −infinity.
struct AttentionResult {
  std::vector<double> o;    ///< [batch, heads, len_q, d]
  std::vector<double> lse;  ///< [batch, heads, len_q], natural
};

/// The textbook: S = Q·Kᵀ / sqrt(d), P = softmax(S) over whole rows, O = P·V, without tiles and
/// without running maxima. Spread over `threads` threads (0: all cores), on which the result does
/// not depend. Source: Vaswani et al. 2017, section 3.2.1.
AttentionResult attention(const Inputs& inputs, const Problem& problem, int threads = 0);

}  // namespace lanescope::reference

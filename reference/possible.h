#pragma once

#include <vector>

#include "reference/online.h"

namespace lanescope::reference {

/// What the outputs of a row can be at all, where the bounds of the recurrence are too large to say
/// anything, because scores so large are known to more than one unit of base 2 only. The weights
/// w_j = 2^(s_j) / Σ 2^(s_i) of a row's keys sum to 1 whatever the scores are, and each lies
/// between what it comes to with its own score as low as its error allows and all others as high,
/// and the reverse. So o_final lies in the hull of those rows of V whose weight is left open,
/// shifted by what the others surely contribute; where one score leads by more than the errors,
/// that is one row of V. And lse is as near as the least known score: log2 Σ 2^(s_j) between all
/// low and all high. On top of that come the roundings of P, of the sums and of the quotient.
///
/// Puts the middle of that range and half of its width in the place of the outputs of `rows`,
/// counted in the block of (batch, head, q_tile) that `walk` makes, where that is narrower. All
/// splits of the keys are looked at together. Rows whose scores or sums may pass the range of fp32
/// stay as they are.
void narrow(Outputs& outputs, const std::vector<Index>& rows, const Inputs& inputs,
            const Problem& problem, const Walk& walk, std::int64_t batch, std::int64_t head,
            std::int64_t q_tile);

}  // namespace lanescope::reference

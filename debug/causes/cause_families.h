#pragma once

#include <algorithm>
#include <iterator>

#include "debug/causes/causes.h"

namespace lanescope {

/// Other keys count in a row than it sees.
inline bool is_mask(Cause cause) {
  static constexpr Cause masks[] = {Cause::mask_off_by_one,   Cause::causal_mask_missing,
                                    Cause::tail_mask_missing, Cause::mask_misaligned,
                                    Cause::sliding_window,    Cause::mask_value,
                                    Cause::mask_wrong};
  return std::ranges::find(masks, cause) != std::end(masks);
}

/// Scores have another factor.
inline bool is_scale(Cause cause) {
  return cause == Cause::wrong_scale || cause == Cause::scale_missing ||
         cause == Cause::scale_repeated;
}

/// Operands are taken from where others lie.
inline bool takes_others(Cause cause) {
  static constexpr Cause orders[] = {Cause::permuted,      Cause::operand_of_other_row,
                                     Cause::transposed,    Cause::wrong_stride,
                                     Cause::stale_operand, Cause::wrong_source};
  return std::ranges::find(orders, cause) != std::end(orders);
}

}  // namespace lanescope

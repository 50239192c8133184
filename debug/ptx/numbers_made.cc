// The first NaN and the first infinity that a kernel makes.

#include <cmath>
#include <cstring>

#include "debug/ptx/block.h"
#include "debug/ptx/lanes.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {

void Warp::make_numbers(const Instruction& in, std::uint32_t mask) {
  NumbersMade& made = block_.numbers();
  float operands[3][32];  // the result may lie where one of them lies
  for (int i = 0; i < in.floats; ++i) std::memcpy(operands[i], lanes<float>(in.s[i]), 128);
  in.lanes(registers_, in, mask);
  // What is computed of values that nobody wrote says nothing.
  if (!unwritten_.empty()) mask &= ~unwritten_[slot_of(in.d)].lanes;
  const float* results = lanes<float>(in.d);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1) || std::isfinite(results[lane])) continue;
    const bool is_nan = std::isnan(results[lane]);
    NumberMade& first = is_nan ? made.nan : made.infinity;
    if (first.block >= 0) continue;
    NumberMade number{block_.index(), thread(lane), pc(), results[lane], {}, in.floats};
    bool makes = true;
    for (int i = 0; i < in.floats; ++i) {
      const float operand = operands[i][lane];
      number.operands[static_cast<std::size_t>(i)] = operand;
      makes = makes && (is_nan ? !std::isnan(operand) : std::isfinite(operand));
    }
    if (makes) first = number;
  }
}

}  // namespace lanescope::ptx

#pragma once

#include <string>
#include <vector>

#include "debug/ptx/machine.h"
#include "debug/ptx/tally.h"
#include "debug/simt/nan_origin.h"

namespace lanescope::ptx {

/// "first NaN: sub.f32 at x.cu:31 of inf, inf, block 0, warp 1, lane 2", with the way
/// that its operand came; and the first infinity, where there is a NaN or one goes to memory.
std::vector<std::string> number_notes(const NumbersMade& made, const Program& program);

/// What the first NaN is made of.
simt::NanOrigin nan_origin(const NumbersMade& made, const Program& program);

/// Waits that never had anything to wait for, and barriers that opened without lanes that had
/// exited.
std::vector<std::string> wait_notes(const Tally& tally, const Program& program);

/// Lines whose accesses cost more than they need: at most `most`.
std::vector<std::string> access_notes(const Tally& tally, const Program& program,
                                      std::size_t most = 20);

}  // namespace lanescope::ptx

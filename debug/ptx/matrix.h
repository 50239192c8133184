#pragma once

#include <cstddef>

#include "debug/ptx/decoder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {

/// A fault where lanes of the warp have exited: matrix instructions need all 32.
void demand_whole(Warp& warp);
/// Takes an operand that is a vector of `count` registers of 32 bits.
void take_fragment(Decoder& decoder, std::size_t operand, std::size_t count, bool result,
                   const char* name);
void decode_wmma(Decoder& decoder);
/// ldmatrix and stmatrix.
void decode_matrices(Decoder& decoder, bool loads);

}  // namespace lanescope::ptx

#pragma once

#include <cstdint>

namespace lanescope::simt {

// Products whose sums are done element by element, as an H200 computes them: all products and the
// accumulator are one group, each truncated to 25 bits below the largest exponent.

/// c += a·b for a[16][8] and the columns b[n][8], c[n][16] of tf32, as mma.m16n8k8 has them: bits
/// of fp32, of which the lowest 13 say nothing. The sum is truncated to fp32. An m16n8k4 is one
/// with zeroes.
void multiply_accumulate_tf32(const std::uint32_t (&a)[16][8], const std::uint32_t (&b)[8][8],
                              float (&c)[8][16]);
/// c += a·b for a[16][16] and the columns b[n][16], c[n][16], bits of f16 all: mma.m16n8k16 with
/// accumulators of f16. The sum is rounded to nearest. An m16n8k8 is one with zeroes.
void multiply_accumulate_f16(const std::uint16_t (&a)[16][16], const std::uint16_t (&b)[8][16],
                             std::uint16_t (&c)[8][16]);

}  // namespace lanescope::simt

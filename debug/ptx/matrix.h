#pragma once

#include <cstddef>

#include "debug/ptx/decoder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {

/// A fault where lanes of the warp have exited: matrix instructions need all 32.
void demand_whole(Warp& warp);
/// The same, and where the machine rounds as a GPU before Hopper: sums of .f16 and tf32.
void demand_hopper(Warp& warp);
/// Takes an operand that is a vector of `count` registers of 32 bits.
void take_fragment(Decoder& decoder, std::size_t operand, std::size_t count, bool result,
                   const char* name);

/// The registers of an mma, as its operands stand.
struct Fragments {
  const Place *d, *a, *b, *c;
};
/// How many d, a and b are.
Fragments fragments_of(Warp& warp, const Instruction& in, int d, int a, int b);
/// An element of an m16n8 is unwritten where a value of its row of a, of its column of b, or of c
/// is. `packed`: registers of c and d hold two.
void follow_product(Warp& warp, const Fragments& at, int a_count, int b_count, bool packed = false);

void decode_wmma(Decoder& decoder);
/// ldmatrix and stmatrix.
void decode_matrices(Decoder& decoder, bool loads);
/// mma of tf32, and with accumulators of f16. False where it is another.
bool decode_scalar_product(Decoder& decoder);
/// mma of floats of 8 bits. False where it is another.
bool decode_fp8_product(Decoder& decoder);

}  // namespace lanescope::ptx

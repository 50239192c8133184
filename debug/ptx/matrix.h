#pragma once

#include <cstddef>

#include "debug/ptx/decoder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {

/// A fault where lanes of the warp have exited: matrix instructions need all 32.
void demand_whole(Warp& warp);
/// The same, and where the machine rounds as a GPU before Hopper: sums of .f16 and tf32.
void demand_hopper(Warp& warp);
/// Takes an operand that is a vector of `count` registers of 32 bits, or of type's.
void take_fragment(Decoder& decoder, std::size_t operand, std::size_t count, bool result,
                   const char* name, Type type = Type::b32);
/// How many registers the operands of an mma have.
struct FragmentSizes {
  std::size_t d, a, b, c;
};
/// Takes those of an instruction that the lanes of a warp do together; d, a and b are of `type`.
void take_fragments(Decoder& decoder, const FragmentSizes& sizes, Type type = Type::b32);

/// The registers of an mma, as its operands stand.
struct Fragments {
  const Place *d, *a, *b, *c;
  int d_count, a_count, b_count;  ///< of c there are as many as of d
};
Fragments fragments_of(Warp& warp, const Instruction& in);
/// Of an mma whose a and b have so many registers together, those of a: twice as many as b's, and
/// of m8n8 as many.
inline int registers_of_a(int factors) { return factors == 2 ? 1 : factors / 3 * 2; }
/// An element of an m16n8 or m8n8 is unwritten where a value of its row of a, of its column of b,
/// or of c is. `packed`: registers of c and d hold two.
void follow_product(Warp& warp, const Fragments& at, bool packed = false);

void decode_wmma(Decoder& decoder);
/// ldmatrix and stmatrix.
void decode_matrices(Decoder& decoder, bool loads);
void decode_movmatrix(Decoder& decoder);
/// mma of tf32, and with accumulators of f16. False where it is another.
bool decode_scalar_product(Decoder& decoder);
/// mma of floats of 8 bits. False where it is another.
bool decode_fp8_product(Decoder& decoder);
/// mma of whole numbers. False where it is another.
bool decode_whole_product(Decoder& decoder);
/// mma of .f64. False where it is another.
bool decode_double_product(Decoder& decoder);
/// The product of a row and a column of `count` numbers, added to `sum` as mma of .f64 does it.
double sum_of_products(const double* a, const double* b, int count, double sum);

}  // namespace lanescope::ptx

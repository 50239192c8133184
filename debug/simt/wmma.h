#pragma once

#include <cstdint>

#include "debug/simt/lane.h"
#include "reference/element_type.h"

namespace lanescope::simt {

// 16×16×16 warp matrix functions (PTX ISA, wmma). All lanes of the warp meet; they give the same
// address, aligned to 32 bytes, and the same stride, whose bytes are a multiple of 16.

/// A lane's part of a 16×16 operand: here half a row. Which part it is on a GPU is not specified.
struct WmmaOperand {
  std::uint16_t x[8];
};

/// wmma.load of an operand of 16-bit elements; `transposed`: its columns lie in memory one after
/// the other.
void wmma_load(WmmaOperand& operand, const void* from, int stride, bool transposed, Here here);

// Accumulators: element i of a lane is
//   (lane / 4 + 8·(i / 2 % 2), 8·(i / 4) + 2·(lane % 4) + i % 2), as on sm_80 to sm_90.

/// wmma.load of an accumulator, row by row.
void wmma_load(float (&c)[8], const float* from, int stride, Here here);
/// wmma.store, row by row.
void wmma_store(float* to, const float (&c)[8], int stride, Here here);
/// wmma.mma with fp32 accumulation: on Hopper two products 16×8×16, left and right half.
void wmma_multiply(ElementType type, float (&c)[8], const WmmaOperand& a, const WmmaOperand& b,
                   Here here);

}  // namespace lanescope::simt

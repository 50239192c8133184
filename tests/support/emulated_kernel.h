#pragma once

#include <cstdint>
#include <vector>

#include "debug/dump/dump.h"
#include "reference/arithmetic.h"

namespace lanescope::testing {

/// A bug to plant.
enum class Fault : std::uint8_t {
  none,
  wrong_scale,      ///< scores scaled by 1 / sqrt(d), without log2(e)
  stale_maximum,    ///< m takes the scores of the tile before into account, not of this one
  missing_rescale,  ///< o is not multiplied by alpha
  dropped_key,      ///< key 1 of tile 1 is left out of P·V
  l_twice,          ///< O is divided by l twice
  raw_maximum,      ///< P = 2^(s − m), m without the factors that s has
  one_pass,         ///< P of a key is relative to the maximum of the keys up to it
  tile_left_out,    ///< rows 16 to 31 leave out tile 1: its scores are −inf there
  panels_of_q,      ///< the panels of 64 columns of Q are read 16 rows apart, not br
  half_of_l,        ///< l lacks the odd columns of P
  column_alpha,     ///< column j of o is multiplied by alpha of row j mod 16 of its 16 rows
};

/// What a kernel holds during one tile: s, p [br, bc]; m_prev, m, alpha, l [br, 1];
/// o [br, head_dim]. Rows past the queries are there, as kernels compute them.
struct EmulatedTile {
  reference::Array s, m_prev, m, alpha, p, l, o;
  reference::Array unrounded_p;  ///< p before it is made an operand
};

struct EmulatedBlock {
  std::vector<EmulatedTile> tiles;  ///< the needed ones
  reference::Array o_final, lse;    ///< [br, head_dim], [br, 1]
};

/// c + Σ a·b in fp32, as a chain of fused multiply-adds or as a matrix unit does it.
double accumulate(const reference::Accumulation& rule, const reference::Array& a,
                  const reference::Array& b, double c);

/// One block of an attention kernel in float, written from the rules of the hardware and not from
/// the reference: every operation is rounded, ex2 and lg2 are truncated. With gates that inject,
/// stages take their input from the reference.
EmulatedBlock emulate(const DumpInfo& info, const Inputs& inputs, std::int64_t block, Fault fault);

}  // namespace lanescope::testing

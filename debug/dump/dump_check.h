#pragma once

#include "debug/dump/dump.h"

namespace lanescope {

/// Throws UsageError, naming the tensor or site, unless all of this holds, so that code behind it
/// can index without checks:
///   sizes     every length of the problem and the tile is positive, heads_kv divides heads, d fits
///             head_dim, the ranges of blocks and tiles lie in the problem (not empty where there
///             are sites)
///   inputs    q, k, v are there, of type `dtype`, with the problem's dimensions; their scales of
///             e4m3, and of nothing else
///   outputs   o_final and lse, where there, have the problem's dimensions
///   sites     each at most once, of 16 or 32 bits, as large as its axes say, its tensor there with
///             its type and dimensions; outputs and partials are the only ones in global memory;
///             every coordinate lies in the tile, every owner in the block
///   tensors   nothing else is there, nothing twice
void check_dump(const Dump& dump);

}  // namespace lanescope

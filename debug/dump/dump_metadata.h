#pragma once

#include "debug/dump/dump.h"
#include "debug/dump/safetensors.h"

namespace lanescope {

/// `info` as the strings of a dump's `__metadata__`: plain text, and JSON for `shape`, `tile`,
/// `traced`, `sites` and, where the run did not end, `stop`. The sites' coordinates and owners are
/// tensors and not part of it.
SafetensorsMetadata metadata_of(const DumpInfo& info);

/// The inverse of metadata_of. Throws UsageError, naming the entry, where one is missing or holds
/// what no dump holds; which sites fit together with which tensors is check_dump's question.
DumpInfo info_of(const SafetensorsMetadata& metadata);

/// Throws UsageError, naming the tensor or site, unless all of this holds, so that code behind it
/// can index without checks:
///   sizes     every length of the problem and the tile is positive, heads_kv divides heads, d fits
///             head_dim, the ranges of blocks and tiles lie in the problem (not empty where there
///             are sites)
///   inputs    q, k, v are there, of type `dtype`, with the problem's dimensions; their scales of
///             e4m3, and of nothing else
///   outputs   o_final and lse, where there, have the problem's dimensions
///   sites     each at most once, of 16 or 32 bits, as large as its axes say, its tensor there with
///   its type and
///             dimensions; o_final and lse are the only ones in global memory; every coordinate
///             and owner lies in the tile and in the block
///   tensors   nothing else is there, nothing twice
void check_dump(const Dump& dump);

}  // namespace lanescope

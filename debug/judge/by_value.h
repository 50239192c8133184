#pragma once

#include <vector>

#include "debug/judge/diff.h"

namespace lanescope {

/// Throws MismatchError, naming `what` differs, where it is not the `same`.
void demand_same(const char* what, bool same);

/// Throws MismatchError, saying what differs, where the bits of two dumps cannot be compared: they
/// are of the same kernel, gate, type, shape, tile, splits, inputs and traced part.
void demand_same_run(const DumpInfo& a, const DumpInfo& b);

/// Whether two dumps are of runs that should agree bit for bit.
bool same_kernel(const DumpInfo& a, const DumpInfo& b);

/// Compares two dumps of the same problem by value: other kernels, gates, types, tiles. Two values
/// differ where they are further apart than both bounds and what the true values themselves differ
/// by (of inputs rounded to different types) together. Sites are compared where the dumps cut the
/// problem into the same tiles and both were traced, outputs always. Values of which that says
/// nothing (further apart than 1 and than the values themselves) are not counted as compared.
/// Throws MismatchError where the problems or their inputs differ.
std::vector<BitReport> diff_by_value(const Dump& a, const Dump& b);

}  // namespace lanescope

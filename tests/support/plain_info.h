#pragma once

#include <string>

#include "debug/dump/dump.h"
#include "reference/inputs.h"

namespace lanescope::testing {

/// The head of the dump of a kernel in plain C++ on `inputs`, which `input` and `seed` name: gate
/// fused, tiles of br queries and bc keys, products of a tensor core, of f32
/// without; no block is traced.
DumpInfo plain_info(const std::string& kernel, const Problem& problem, const Inputs& inputs,
                    const std::string& input, std::uint64_t seed, int br, int bc);

}  // namespace lanescope::testing

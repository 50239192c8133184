#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "debug/dump/dump.h"

namespace lanescope::testing {

/// A bug as people plant it: its name, and what `locate` should call it.
struct StrangerBug {
  const char* name;
  const char* cause;
};

/// The bugs that the stranger's kernel can have.
const std::vector<StrangerBug>& stranger_bugs();

/// What somebody's kernel leaves: q, k, v, o_final and lse, nothing traced. It is FlashAttention-2
/// in plain loops of float (Dao 2023, algorithm 1; scores of base 2; P rounded to the type of the
/// inputs) with tiles of br queries and bc keys, and one bug, two ("one + other") or none ("").
/// What is right, too: "sum_of_rounded", l sums P as it is rounded; "q_rounded", Q is scaled and
/// rounded.
Dump stranger_dump(const Problem& problem, ElementType dtype, const std::string& input,
                   std::uint64_t seed, int br, int bc, const std::string& bug);

}  // namespace lanescope::testing

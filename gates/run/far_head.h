#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gates/run/run_options.h"
#include "reference/site.h"

namespace lanescope {

/// What the last head of a problem came to whose tensors have more than 2^32 elements.
struct FarHead {
  Problem problem;
  std::string fault;                                        ///< how the run broke off, if it did
  std::int64_t block = 0;                                   ///< the head's
  std::int64_t compared = 0, differing = 0, unwritten = 0;  ///< elements of its outputs
  std::optional<SiteId> first;                              ///< the output that differs first
  double got = 0, want = 0;                                 ///< its first element that does

  bool right() const { return fault.empty() && differing == 0; }
};

/// Runs the block of the last head alone, of so many that the elements of Q, O, and, `far_keys`, of
/// K and V count beyond 2^32, and compares it bit for bit with the same head as the only one: what
/// differs comes of indices. On sim: the heads before it are zeros that take no memory. `options`:
/// of a fused run on sim. Nothing where the kernel does not take such a problem, or the machine has
/// no such memory.
std::optional<FarHead> run_far_head(const RunOptions& options, bool far_keys);

}  // namespace lanescope

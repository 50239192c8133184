#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "debug/ptx/recognise.h"
#include "gates/run/run_options.h"
#include "reference/site.h"

namespace lanescope {

/// What there is so much of that the elements of the tensors count beyond 2^32.
enum class FarSide : std::uint8_t {
  heads,        ///< of queries and of keys
  query_heads,  ///< K and V have one
  queries,      ///< of one head
  keys          ///< of many heads; queries count no farther than 2^31 elements
};

/// What the last rows of such a problem came to.
struct FarHead {
  Problem problem;
  std::string fault;                                        ///< how the run broke off, if it did
  bool too_long = false;                                    ///< nothing is known of it
  std::int64_t block = 0;                                   ///< the rows'
  std::int64_t compared = 0, differing = 0, unwritten = 0;  ///< elements of its outputs
  std::vector<std::uint32_t> partials;                      ///< of its splits, their bits
  bool partials_hold = false;   ///< they are those of the rows as the only ones
  bool sums_hold = false;       ///< the log-sum-exps are right: the scores are, too
  bool weighs_values = false;   ///< O is not 0, which is all that lies before the last rows of V
  std::optional<SiteId> first;  ///< the output that differs first
  double got = 0, want = 0;     ///< its first element that does
  /// Of a kernel in PTX that is wrong: lines that come to those rows where these are the only ones,
  /// and not here.
  ptx::RowLines lost;

  bool right() const { return !too_long && fault.empty() && differing == 0; }
};

/// Runs the block of the last rows alone, `side` being far, and compares them bit for bit with the
/// same rows as the only ones: what differs comes of indices. On sim: what lies before them is
/// zeros that take no memory. `options`: of a fused run on sim. Nothing where the kernel does not
/// take such a problem or does not run the last block alone, or where the machine has no such
/// memory; `too_long` where few blocks go through all of it, also where there are as many as items.
std::optional<FarHead> run_far_head(const RunOptions& options, FarSide side);

}  // namespace lanescope

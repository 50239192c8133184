#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lanescope {

/// What a line of the story of a run that did not end says, of lanes of some warps of a block:
/// "warps 0-3 lanes 0-31 wait in bar.sync at x.cu:7 in pv for barrier 1: 128 of 160 threads have
/// come" (debug/simt/block.cc, debug/ptx/block_places.cc).
struct StoppedLanes {
  int first_warp = 0, last_warp = 0;
  bool runs = false;  ///< and do not wait
  std::string call;   ///< what they run or wait in, and all behind it
  bool at_mbarrier() const { return call.starts_with("mbarrier"); }
  /// At one of threads, of the block or a number.
  bool at_barrier() const { return call.starts_with("bar"); }
  /// For lanes of their own warp.
  bool in_warp() const;
  /// Of the threads that a barrier waits for, which share has come; 1: it is no such barrier.
  double share_come() const;
};

/// Of a line of a story; nothing: it tells of none.
std::optional<StoppedLanes> stopped_lanes_of(const std::string& line);

/// In their order.
std::vector<StoppedLanes> stopped_lanes(const std::string& story);

/// The block that a deadlock names; −1: there is none.
std::int64_t block_of_deadlock(const std::string& story);

}  // namespace lanescope

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "debug/ptx/block_order.h"
#include "debug/simt/finding.h"
#include "debug/simt/shadow.h"

namespace lanescope::ptx {

/// Who made the tensor maps in global memory that the blocks of a grid make themselves, and which
/// fences stand between that and the copies by them (PTX ISA, fence.proxy.tensormap): a copy sees
/// what was written before a release that is before an acquire, at the map's address and in the
/// copy's block, that is before the copy. Maps that the host made, or a grid before, need none
/// here.
class TensorMapOrder {
 public:
  /// A lane, in the middle of what it does.
  struct Moment {
    simt::Party party;
    simt::Epoch now;
    simt::Past past;
    std::uint32_t time;  ///< of its block (BlockOrder)
  };
  /// A lane writes a map, or a part of it; `releases`: with the fence behind it
  /// (tensormap.cp_fenceproxy).
  void write(std::uint64_t map, const Moment& me, bool releases);
  /// fence.proxy.tensormap: a release of all maps that the lane knows of, an acquire of one.
  void release(const Moment& me, const BlockOrder& order);
  void acquire(std::uint64_t map, const Moment& me, const BlockOrder& order);
  /// A lane copies by a map. Who wrote it, where fences are missing between.
  std::optional<simt::Party> use(std::uint64_t map, const Moment& me,
                                 const BlockOrder& order) const;

 private:
  /// What a lane did, for others to know or not.
  struct Event {
    simt::Party party;
    simt::Epoch epoch;
    std::uint32_t time;
  };
  struct Map {
    Event written;
    std::optional<Event> released;
    std::vector<Event> acquired;  ///< behind the release
  };
  static Event event_of(const Moment& me) { return {me.party, me.now, me.time}; }
  /// Lanes of a warp run in step.
  static bool knows(const Moment& me, const Event& event, const BlockOrder& order);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Map> maps_;  ///< by address
};

/// What is known of the order in a grid that runs under the memory checker.
struct GridOrder {
  BlockOrder blocks;
  TensorMapOrder maps;
};

}  // namespace lanescope::ptx

#include "debug/ptx/bulk_copy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "debug/ptx/atomic.h"
#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/tensor_map.h"

namespace lanescope::ptx {
namespace {

template <class F>
void each_lane(std::uint32_t mask, F&& f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

/// Loads into the shared memory of a block of the cluster; a multicast into that of all blocks in
/// the mask `blocks`, at the same offsets.
void load(Warp& warp, const Instruction& in, const simt::TensorMap& map, const std::int64_t* at,
          int rank, Place blocks, simt::Caller caller) {
  const int lane = caller.thread % 32;
  const Destination first = destination_of(warp, lane, in.space, warp.address_of(in, lane), 1,
                                           warp.lanes<std::uint32_t>(in.s[2])[lane]);
  Cluster& cluster = warp.block().cluster();
  std::uint32_t ranks = 1u << first.to.block->rank();
  if (blocks != no_place) ranks = warp.lanes<std::uint16_t>(blocks)[lane];
  if (ranks >> cluster.size() != 0) {
    warp.fail(lane, "the mask of a multicast names rank " +
                        std::to_string(std::bit_width(ranks) - 1) + " of a cluster of " +
                        std::to_string(cluster.size()));
  }
  each_lane(ranks, [&](int number) {
    Block& block = cluster.block(number);
    if (block.alive() == 0) {
      warp.fail(lane, "the block of rank " + std::to_string(number) + " has exited");
    }
    caller.from_outside = &block != &warp.block();
    simt::AsyncBlock& async = block.async();
    simt::MbarrierState& full = async.barrier(first.full->offset, caller);
    warp.check_initialised(block, full, lane);
    async.load(first.to.offset, map, at, rank, full, caller);
    if (caller.from_outside) {
      warp.check_sent({&block, first.to.offset}, static_cast<std::size_t>(map.box_bytes()), false,
                      &full, lane);
    }
  });
}

simt::Reduction reduction_of(Update update, TensorElements elements) {
  return [=](std::byte* to, const std::byte* from, std::size_t bytes) {
    update_elements(update, elements.type, to, from, bytes, elements.flushes);
  };
}

/// Stores that the lanes before have issued with this instruction: what one writes, another writes
/// as well.
class IssuedStores {
 public:
  bool again(const std::array<std::uint64_t, 7>& store) {
    const bool known = std::find(stores_.begin(), stores_.end(), store) != stores_.end();
    if (!known) stores_.push_back(store);
    return known;
  }

 private:
  std::vector<std::array<std::uint64_t, 7>> stores_;
};

}  // namespace

Destination destination_of(Warp& warp, int lane, Space space, std::uint64_t address,
                           std::size_t bytes, std::uint64_t barrier) {
  const auto to = warp.shared_place(space, address, bytes, lane);
  const auto full = warp.shared_place(space, barrier, 8, lane);
  if (to.block != full.block) {
    warp.fail(lane, "the copy and its mbarrier lie in different blocks of the cluster");
  }
  simt::Caller caller = warp.caller(lane);
  caller.from_outside = to.block != &warp.block();
  simt::MbarrierState& awaited = to.block->async().barrier(full.offset, caller);
  warp.check_initialised(*to.block, awaited, lane);
  return {to, &awaited, caller};
}

void demand_other_block(Warp& warp, int lane, const Destination& destination) {
  if (destination.caller.from_outside) return;
  warp.fail(lane,
            "it goes into the block's own shared memory, and is for that of another block of the "
            "cluster (mapa)");
}

Flow copy_tensor(Warp& warp, const Instruction& in, std::uint32_t mask) {
  simt::AsyncBlock& async = warp.block().async();
  IssuedStores issued;
  each_lane(mask, [&](int lane) {
    const simt::Caller caller = warp.caller(lane);
    const std::uint64_t map_at =
        warp.lanes<std::uint64_t>(in.s[1])[lane] + static_cast<std::uint64_t>(in.immediate2);
    const std::byte* map_bytes = warp.locate(Space::generic, map_at, 128, lane);
    warp.check_map(map_bytes, lane);
    const auto map = read_tensor_map(map_bytes);
    if (!map) {
      warp.fail(lane, "the 128 bytes of the tensor map are not what cuTensorMapEncodeTiled wrote");
    }
    if (const char* fault = fault_of(*map)) {  // of one that the kernel made
      warp.fail(lane, std::string("the tensor map: ") + fault);
    }
    std::int64_t at[5] = {};
    for (std::size_t i = 0; i < in.vector; ++i) {
      const Place place = warp.program().operands[in.target + i];
      at[i] = warp.lanes<std::int32_t>(place)[lane];
    }
    if (in.kind == static_cast<std::uint8_t>(CopyKind::store)) {
      const std::size_t from = warp.shared_offset(in, 1, lane);
      std::array<std::uint64_t, 7> store = {map_at, from};
      std::copy_n(at, 5, store.begin() + 2);
      return async.store(*map, at, in.vector, from, caller, {}, issued.again(store));
    }
    if (in.kind == static_cast<std::uint8_t>(CopyKind::reduce)) {
      const auto update = static_cast<Update>(warp.program().operands[in.target + in.vector]);
      const TensorElements elements = elements_of_tensor(map_bytes);
      if (const char* fault = fault_of_reduction(update, elements.type)) {
        warp.fail(lane,
                  std::string("there is no such reduction of the tensor's elements: ") + fault);
      }
      return async.store(*map, at, in.vector, warp.shared_offset(in, 1, lane), caller,
                         reduction_of(update, elements));
    }
    const bool several = in.kind == static_cast<std::uint8_t>(CopyKind::multicast);
    const Place blocks = several ? warp.program().operands[in.target + in.vector] : no_place;
    load(warp, in, *map, at, in.vector, blocks, caller);
  });
  return Flow::next;
}

Flow copy_bytes(Warp& warp, const Instruction& in, std::uint32_t mask) {
  simt::AsyncBlock& async = warp.block().async();
  IssuedStores issued;
  each_lane(mask, [&](int lane) {
    const simt::Caller caller = warp.caller(lane);
    const std::uint32_t bytes = warp.lanes<std::uint32_t>(in.s[3])[lane];
    const std::uint64_t global =
        warp.lanes<std::uint64_t>(in.s[1])[lane] + static_cast<std::uint64_t>(in.immediate2);
    if (bytes % 16 != 0 || global % 16 != 0) {
      warp.fail(lane, std::to_string(bytes) + " bytes, and addresses, must be multiples of 16",
                FaultKind::misaligned_address);
    }
    if (bytes == 0) return;
    const simt::TensorMap map{std::bit_cast<const void*>(global),
                              1,
                              1,
                              {static_cast<std::int64_t>(bytes)},
                              {1},
                              {static_cast<int>(bytes)},
                              simt::Swizzle::none};
    const std::int64_t at[5] = {};
    if (in.kind == static_cast<std::uint8_t>(CopyKind::store)) {
      const std::size_t from = warp.shared_offset(in, 1, lane);
      return async.store(map, at, 1, from, caller, {}, issued.again({global, from, bytes}));
    }
    if (in.kind == static_cast<std::uint8_t>(CopyKind::reduce)) {
      return async.store(map, at, 1, warp.shared_offset(in, 1, lane), caller,
                         reduction_of(static_cast<Update>(in.target), {in.type, false}));
    }
    const bool several = in.kind == static_cast<std::uint8_t>(CopyKind::multicast);
    load(warp, in, map, at, 1, several ? warp.program().operands[in.target] : no_place, caller);
  });
  return Flow::next;
}

Flow send_bytes(Warp& warp, const Instruction& in, std::uint32_t mask) {
  const bool reduces = in.kind == static_cast<std::uint8_t>(CopyKind::reduce);
  const auto update = static_cast<Update>(in.target);
  each_lane(mask, [&](int lane) {
    const std::uint32_t bytes = warp.lanes<std::uint32_t>(in.s[3])[lane];
    const std::uint64_t address = warp.address_of(in, lane);
    const std::uint64_t source =
        warp.lanes<std::uint32_t>(in.s[1])[lane] + static_cast<std::uint64_t>(in.immediate2);
    if (bytes % 16 != 0 || address % 16 != 0 || source % 16 != 0) {
      warp.fail(lane, std::to_string(bytes) + " bytes, and addresses, must be multiples of 16",
                FaultKind::misaligned_address);
    }
    if (bytes == 0) return;
    const Destination at = destination_of(warp, lane, in.space, address, bytes,
                                          warp.lanes<std::uint32_t>(in.s[2])[lane]);
    demand_other_block(warp, lane, at);
    const std::size_t from = warp.shared_offset(Space::shared, source, bytes, lane);
    warp.check_sent(at.to, bytes, reduces, at.full, lane);
    warp.block().async().send(from, bytes, at.to.block->async(), at.to.offset, *at.full,
                              warp.caller(lane),
                              reduces ? reduction_of(update, {in.type, false}) : simt::Reduction());
  });
  return Flow::next;
}

Flow commit_bulk_copies(Warp& warp, const Instruction&, std::uint32_t mask) {
  each_lane(mask, [&](int lane) { warp.block().async().commit_stores(warp.thread(lane)); });
  return Flow::next;
}

Flow wait_for_bulk_copies(Warp& warp, const Instruction& in, std::uint32_t mask) {
  each_lane(mask, [&](int lane) {
    simt::AsyncBlock& async = warp.block().async();
    const auto pending = static_cast<int>(in.immediate);
    warp.tally_wait(static_cast<int>(async.stores(warp.thread(lane)).groups.size()) > pending);
    async.wait_stores(pending, warp.thread(lane));
  });
  return Flow::next;
}

}  // namespace lanescope::ptx

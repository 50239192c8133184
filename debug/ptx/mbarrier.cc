// PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier", and the fences:
// between the proxies, whose scope says nothing here, and of the cluster or more, which order an
// mbarrier.init.

#include <bit>

#include "debug/ptx/block.h"
#include "debug/ptx/control_flow.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

template <class F>
void each_lane(std::uint32_t mask, F&& f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

simt::MbarrierState& barrier_of(Warp& warp, const Instruction& in, const simt::Caller& caller) {
  const int lane = caller.thread % 32;
  return warp.block().async().barrier(warp.shared_offset(in, 8, lane), caller);
}

/// s[1]: the count.
Flow init(Warp& warp, const Instruction& in, std::uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const std::size_t offset = warp.shared_offset(in, 8, lane);
    const simt::Caller caller = warp.caller(lane);
    warp.block().async().init(offset, warp.lanes<std::uint32_t>(in.s[1])[lane], caller);
    warp.note_initialised(warp.block().async().barrier(offset, caller), lane);
  });
  return Flow::next;
}

Flow invalidate(Warp& warp, const Instruction& in, std::uint32_t mask) {
  each_lane(mask, [&](int lane) {
    warp.block().async().invalidate(warp.shared_offset(in, 8, lane), warp.caller(lane));
  });
  return Flow::next;
}

enum Arrives : std::uint8_t { arrives = 1, expects = 2, completes = 4, of_cluster = 8 };

/// What a lane comes to in the place of an mbarrier tells others of what it did. In another block
/// of the cluster, an arrival does so that releases to the cluster, or has such a fence before it;
/// one of the block's scope, which PTX takes where none is given, tells of reads alone: CUTLASS
/// gives tiles back like that (ClusterBarrier::arrive), and what the lane wrote may come later.
void tell_cluster(Warp& warp, const Instruction& in, simt::MbarrierState& barrier,
                  const simt::Caller& caller) {
  const bool releases = (in.kind & of_cluster) || (warp.fenced_lanes >> caller.thread % 32 & 1);
  const bool of_reads = caller.from_outside && !((in.kind & arrives) && releases);
  warp.block().meet_in_cluster(&barrier, of_reads);
}

/// s[1]: bytes or no_place, s[2]: the number of arrivals or no_place. The result is the phase that
/// they are of: what a GPU leaves there nobody knows.
Flow arrive(Warp& warp, const Instruction& in, std::uint32_t mask) {
  each_lane(mask, [&](int lane) {
    const auto place = warp.shared_place(in.space, warp.address_of(in, lane), 8, lane);
    simt::Caller caller = warp.caller(lane);
    caller.from_outside = place.block != &warp.block();
    simt::AsyncBlock& async = place.block->async();
    simt::MbarrierState& barrier = async.barrier(place.offset, caller);
    warp.check_initialised(*place.block, barrier, lane);
    tell_cluster(warp, in, barrier, caller);
    if (caller.from_outside) warp.note_arrival_at(*place.block, lane);
    const std::uint32_t phase = barrier.phase;
    const std::int64_t bytes = in.s[1] == no_place ? 0 : warp.lanes<std::uint32_t>(in.s[1])[lane];
    if (in.kind & expects) async.expect(barrier, bytes, caller);
    if (in.kind & completes) async.complete_bytes(barrier, bytes);
    const std::uint32_t count = in.s[2] == no_place ? 1 : warp.lanes<std::uint32_t>(in.s[2])[lane];
    constexpr std::uint32_t most = (1 << 20) - 1;  // PTX ISA, "mbarrier.arrive"
    if ((in.kind & arrives) && count > 0) {
      async.arrive(barrier, caller, static_cast<int>(std::min(count, most)));
    }
    if (in.d != no_place) warp.lanes<std::uint64_t>(in.d)[lane] = phase;
  });
  return Flow::next;
}

constexpr std::uint8_t by_state = 1;

/// s[1]: the parity, or of kind `by_state` the phase that `arrive` left. A lane that waits is
/// suspended until the phase has completed, or nothing else goes on: a GPU may do either.
Flow try_wait(Warp& warp, const Instruction& in, std::uint32_t mask) {
  simt::AsyncBlock& async = warp.block().async();
  std::uint32_t done = 0;
  simt::MbarrierState* open[32] = {};
  each_lane(mask, [&](int lane) {
    const simt::Caller caller = warp.caller(lane);
    simt::MbarrierState& barrier = barrier_of(warp, in, caller);
    const std::uint64_t given = in.kind == by_state ? warp.lanes<std::uint64_t>(in.s[1])[lane] & 1
                                                    : warp.lanes<std::uint32_t>(in.s[1])[lane];
    if (async.try_wait(barrier, static_cast<int>(given), caller)) {
      done |= 1u << lane;
      warp.block().meet_in_cluster(&barrier);
      warp.block().acknowledge(barrier);
      warp.block().learn_what_arrived(caller.thread);
    } else {
      open[lane] = &barrier;
    }
  });
  Split& split = warp.split();
  if (done != mask && !split.told_in_vain) {
    split.waits_for = open[std::countr_zero(mask & ~done)];
    return Flow::polls;
  }
  split.told_in_vain = false;
  each_lane(mask & ~done,
            [&](int lane) { simt::AsyncBlock::leave(*open[lane], warp.thread(lane)); });
  std::uint32_t& d = warp.predicate(in.d);
  d = (d & ~mask) | done;
  return Flow::next;
}

Flow fence_proxy(Warp& warp, const Instruction&, std::uint32_t mask) {
  each_lane(mask, [&](int lane) { warp.block().async().fence_proxy(warp.thread(lane)); });
  return Flow::next;
}

Flow fence_init(Warp& warp, const Instruction&, std::uint32_t mask) {
  if (!warp.block().checker()) return Flow::next;
  each_lane(mask, [&](int lane) { warp.block().async().fence_init(warp.thread(lane)); });
  return Flow::next;
}

Flow fence_cluster(Warp& warp, const Instruction& in, std::uint32_t mask) {
  warp.fenced_lanes |= mask;
  return fence_init(warp, in, mask);
}

Flow fence_device(Warp& warp, const Instruction& in, std::uint32_t mask) {
  warp.block().fenced = true;
  return fence_cluster(warp, in, mask);
}

/// How strong, between whom, and where the barrier lies.
void take_words(Decoder& d) {
  d.modifiers.ignore({"release", "acquire", "relaxed", "cta", "cluster"});
  const int space = d.modifiers.choose({"shared", "shared::cta", "shared::cluster"}, -1);
  d.in.space = space < 0 ? Space::generic : Space::shared;
  if (d.demand_type() != Type::b64) d.fail("an mbarrier is .b64");
}

void take_state(Decoder& d) {
  if (d.operand(0).kind != Operand::Kind::none) d.in.d = d.result(0, Type::b64);
}

void decode_arrive(Decoder& d, std::uint8_t kind, bool has_state) {
  d.modifiers.take("noComplete");
  const bool relaxed = d.modifiers.take("relaxed");
  if (d.modifiers.take("cluster") && !relaxed) kind |= of_cluster;
  const bool with_bytes = (kind & (expects | completes)) != 0;
  take_words(d);
  const std::size_t first = has_state ? 1 : 0;
  d.demand_operands(first + 1 + (with_bytes ? 1 : 0), first + 2);
  if (has_state) take_state(d);
  d.in.kind = kind;
  d.in.s[1] = d.in.s[2] = no_place;
  if (d.operand_count() == first + 2) d.in.s[with_bytes ? 1 : 2] = d.source(first + 1, Type::u32);
  d.address(d.operand(first));
  d.in.act = arrive;
}

/// A wait whose result nobody looks at: a GPU may return from it before the phase has completed,
/// and so does the machine.
Flow wait_for_nothing(Warp& warp, const Instruction& in, std::uint32_t mask) {
  each_lane(mask, [&](int lane) { barrier_of(warp, in, warp.caller(lane)); });
  warp.predicate(in.d) &= ~mask;
  return Flow::next;
}

void decode_wait(Decoder& d) {
  const bool parity = d.modifiers.take("parity");
  take_words(d);
  d.demand_operands(3, 4);  // the last one is how long it may be suspended
  d.in.d = d.result(0, Type::pred);
  d.in.s[1] = d.source(2, parity ? Type::u32 : Type::b64);
  d.address(d.operand(1));
  d.in.kind = parity ? 0 : by_state;
  d.in.may_fail = true;
  const Operand& result = d.operand(0);
  const bool looked_at =
      result.kind != Operand::Kind::reg || !is_unused(d.function(), result.index);
  d.in.act = looked_at ? try_wait : wait_for_nothing;
}

void decode_mbarrier(Decoder& d) {
  const int kind = d.modifiers.choose({"init", "inval", "arrive", "arrive_drop", "expect_tx",
                                       "complete_tx", "test_wait", "try_wait", "pending_count"},
                                      -1);
  switch (kind) {
    case 0:
      take_words(d);
      d.demand_operands(2);
      d.in.s[1] = d.source(1, Type::u32);
      d.address(d.operand(0));
      d.in.act = init;
      return;
    case 1:
      take_words(d);
      d.demand_operands(1);
      d.address(d.operand(0));
      d.in.act = invalidate;
      return;
    case 2:
      return decode_arrive(d, d.modifiers.take("expect_tx") ? arrives | expects : arrives, true);
    case 4:
      return decode_arrive(d, expects, false);
    case 5:
      return decode_arrive(d, completes, false);
    case 6:
    case 7:
      return decode_wait(d);
    default:
      d.refuse("the machine does not know this form of it");
  }
}

/// A fence of the cluster's scope, or a wider one, which orders an mbarrier.init as well.
bool releases_cluster(std::string_view opcode) {
  const bool is_fence = opcode.starts_with("fence.sc") || opcode.starts_with("fence.acq_rel") ||
                        opcode.starts_with("fence.release") || opcode.starts_with("membar.");
  return is_fence && !opcode.ends_with(".cta");
}

void decode_fence(Decoder& d) {
  const std::string_view opcode = d.statement().opcode;
  while (!d.modifiers.left().empty()) d.modifiers.take(d.modifiers.left().front());
  if (releases_cluster(opcode)) {
    d.in.act = opcode.ends_with(".cluster") ? fence_cluster : fence_device;
  } else if (opcode.starts_with("fence.mbarrier_init")) {
    d.in.act = fence_init;
  } else if (opcode.starts_with("fence.proxy.async.global")) {
    d.in.act = [](Warp&, const Instruction&, std::uint32_t) { return Flow::next; };
  } else {
    d.in.act = fence_proxy;
  }
}

}  // namespace

bool decode_mbarriers(Decoder& d) {
  const std::string_view opcode = d.statement().opcode;
  if (d.modifiers.base() == "mbarrier") {
    decode_mbarrier(d);
  } else if (opcode.starts_with("fence.mbarrier_init") || opcode == "fence.proxy.async" ||
             opcode.starts_with("fence.proxy.async.") || releases_cluster(opcode)) {
    decode_fence(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx

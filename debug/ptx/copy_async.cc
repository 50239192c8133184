// PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy": cp.async of lanes.

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

/// cp.async: both addresses, then how many bytes, and how many of those are read.
Flow copy_async(Warp& warp, const Instruction& in, std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  const auto bytes = static_cast<std::size_t>(in.vector);
  Pointers to, from;
  warp.locate(in, mask, bytes, to);
  const auto* sources = warp.lanes<std::uint64_t>(in.s[1]);
  std::array<std::uint8_t, 32> valid{};
  from.fill(nullptr);
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    std::size_t size = bytes;
    if (in.kind == 1) size = warp.lanes<std::uint32_t>(in.s[2])[lane];
    if (in.kind == 2 && warp.predicate(in.s[2]) >> lane & 1) size = 0;
    if (size > bytes) warp.fail(lane, "more bytes are to be read than copied");
    const auto i = static_cast<std::size_t>(lane);
    valid[i] = static_cast<std::uint8_t>(size);
    if (size == 0) continue;
    const std::uint64_t address = sources[lane] + static_cast<std::uint64_t>(in.immediate2);
    if (address % bytes != 0)
      warp.fail(lane,
                "the source is misaligned: a multiple of " + std::to_string(bytes) + " is needed",
                FaultKind::misaligned_address);
    from[i] = warp.locate_global(address, size, lane);
  }
  if (warp.block().grid().tallies_accesses) {
    std::uint32_t reads = mask;
    for (std::size_t i = 0; i < 32; ++i) {
      if (!from[i]) reads &= ~(1u << i);
    }
    warp.tally_access(reads, bytes, from);
  }
  warp.issue_copies(mask, bytes, to, from, valid);
  return Flow::next;
}

Flow commit_copies(Warp& warp, const Instruction&, std::uint32_t mask) {
  for (std::size_t lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) ++warp.groups_committed[lane];
  }
  return Flow::next;
}

Flow wait_for_copies(Warp& warp, const Instruction& in, std::uint32_t mask) {
  warp.note_wait(mask);
  warp.tally_wait(
      warp.complete_copies(mask, in.kind == 1, static_cast<std::uint32_t>(in.immediate)));
  return Flow::next;
}

/// cp.async.mbarrier.arrive: the lane's copies until here arrive when they are done, which is now;
/// kind 1 (.noinc): as one of the arrivals that the mbarrier counts.
Flow arrive_with_copies(Warp& warp, const Instruction& in, std::uint32_t mask) {
  for (; mask != 0; mask &= mask - 1) {
    const int lane = std::countr_zero(mask);
    warp.complete_copies(1u << lane, true, 0);
    const simt::Caller caller = warp.caller(lane);
    simt::AsyncBlock& async = warp.block().async();
    simt::MbarrierState& barrier = async.barrier(warp.shared_offset(in, 8, lane), caller);
    if (in.kind == 1) async.arrive(barrier, caller);
  }
  return Flow::next;
}

void decode_arrival(Decoder& d) {
  d.modifiers.ignore({"arrive"});
  d.in.kind = d.modifiers.take("noinc") ? 1 : 0;
  d.in.space =
      d.modifiers.choose({"shared", "shared::cta"}, -1) < 0 ? Space::generic : Space::shared;
  if (d.demand_type() != Type::b64) d.fail("an mbarrier is .b64");
  d.demand_operands(1);
  d.address(d.operand(0));
  d.in.act = arrive_with_copies;
}

}  // namespace

void decode_copy_async(Decoder& d) {
  if (d.modifiers.take("commit_group")) {
    d.demand_operands(0);
    d.in.act = commit_copies;
    return;
  }
  const int wait = d.modifiers.choose({"wait_group", "wait_all"}, -1);
  if (wait >= 0) {
    d.demand_operands(wait == 0 ? 1 : 0);
    d.in.kind = static_cast<std::uint8_t>(wait);
    if (wait == 0) d.in.immediate = static_cast<std::int64_t>(d.integer(0, "the number of groups"));
    d.in.act = wait_for_copies;
    return;
  }
  if (d.modifiers.take("mbarrier")) return decode_arrival(d);
  const bool hinted = d.modifiers.take("L2::cache_hint");
  ignore_hints(d);
  d.in.space = Space::shared;
  if (d.modifiers.choose({"shared", "shared::cta"}, -1) < 0 || !d.modifiers.take("global")) {
    d.fail("it copies from .global to .shared");
  }
  d.demand_operands(3, hinted ? 5 : 4);
  d.address(d.operand(1));
  d.in.s[1] = d.in.s[0];
  d.in.immediate2 = d.in.immediate;
  if (!d.in.wide_address) d.fail("the source's address has 64 bits");
  d.in.space = Space::shared;
  d.address(d.operand(0));
  const std::uint64_t bytes = d.integer(2, "the number of bytes");
  if (bytes != 4 && bytes != 8 && bytes != 16) d.fail("it copies 4, 8 or 16 bytes");
  d.in.vector = static_cast<std::uint8_t>(bytes);
  if (d.operand_count() > (hinted ? 4u : 3u)) {
    const Operand& last = d.operand(3);
    const bool is_predicate = last.kind == Operand::Kind::reg && d.width_of(last) == 1;
    d.in.kind = is_predicate ? 2 : 1;
    d.in.s[2] = d.source_of(last, is_predicate ? Type::pred : Type::b32);
  }
  d.in.act = copy_async;
}

void Warp::tally_wait(bool awaits) {
  InstructionTally* tally = block_.tally_of(pc());
  if (!tally) return;
  ++tally->waits;
  tally->awaited += awaits ? 1 : 0;
}

void Warp::note_async_copy(int lane, std::size_t bytes, const std::byte* to, const std::byte* from,
                           std::size_t valid) {
  if (valid > 0) recording_->note_copy({lane, to, from, valid});
  if (valid < bytes) recording_->note_copy({lane, to + valid, nullptr, bytes - valid});
}

void Warp::issue_copies(std::uint32_t mask, std::size_t bytes, const Pointers& to,
                        const Pointers& from, const std::array<std::uint8_t, 32>& valid) {
  AreaShadow::Held held;
  simt::BlockChecker* checker = block_.checker();
  for (std::size_t lane = 0; (checker || recording_) && lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const auto i = static_cast<int>(lane);
    if (checker) {
      if (valid[lane] > 0) check_lane(Access::read, i, from[lane], valid[lane], 1, false, held);
      if (!checker->issue_copy(to[lane], from[lane], bytes, 0, place(), thread(i))) {
        fail(i, "an access outside of every buffer", FaultKind::illegal_address);
      }
    }
    if (recording_) note_async_copy(i, bytes, to[lane], from[lane], valid[lane]);
  }
  copies_.push_back({mask, static_cast<std::uint8_t>(bytes), valid, groups_committed, to, from});
}

void Warp::land(const Copies& copies, std::size_t lane) {
  std::byte* to = copies.to[lane];
  const std::size_t valid = copies.valid[lane];
  if (valid == 16) {
    std::memcpy(to, copies.from[lane], 16);  // nearly all, and a size that the compiler knows
  } else {
    if (valid > 0) std::memcpy(to, copies.from[lane], valid);
    std::memset(to + valid, 0, copies.bytes - valid);
  }
  if (simt::BlockChecker* checker = block_.checker()) {
    note_written(to, copies.bytes);
    checker->complete_copy(to, copies.bytes, thread(static_cast<int>(lane)));
  }
}

/// The latest legal moment: what is not waited for has not arrived.
void Warp::note_wait(std::uint32_t mask) {
  simt::BlockChecker* const checker = block_.checker();
  for (; checker && mask != 0; mask &= mask - 1) {
    checker->note_wait(thread(std::countr_zero(mask)), place_number());
  }
}

bool Warp::complete_copies(std::uint32_t mask, bool all, std::uint32_t pending) {
  bool any = false, is_empty = false;
  for (Copies& copies : copies_) {
    std::uint32_t due = copies.lanes & mask;
    for (std::uint32_t left = all ? 0 : due; left != 0; left &= left - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(left));
      if (std::uint64_t{copies.group[lane]} + pending >= groups_committed[lane]) {
        due &= ~(1u << lane);
      }
    }
    copies.lanes &= ~due;
    is_empty = is_empty || copies.lanes == 0;
    any = any || due != 0;
    for (; due != 0; due &= due - 1) {
      land(copies, static_cast<std::size_t>(std::countr_zero(due)));
    }
  }
  if (is_empty) std::erase_if(copies_, [](const Copies& copies) { return copies.lanes == 0; });
  return any;
}

}  // namespace lanescope::ptx

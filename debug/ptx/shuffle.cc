// PTX ISA, "Parallel Synchronization and Communication Instructions": what the lanes of a warp do
// together. "Waits until all non-exited threads corresponding to membermask have executed" it.

#include <bit>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"
#include "debug/ptx/warp_members.h"

namespace lanescope::ptx {
namespace {

/// Warp::converge, done at once where all lanes are here and each names all.
Flow converge(Warp& warp, Place place) {
  const auto* members = warp.lanes<std::uint32_t>(place);
  std::uint32_t all = warp.split().mask;
  for (int lane = 0; lane < 32; ++lane) all &= members[lane];
  return all == ~0u ? Flow::next : warp.converge(members_of(warp, place));
}

enum class Direction : std::uint8_t { up, down, butterfly, index };

/// s[0]: a, s[1]: b, s[2]: c, s[3]: the members.
Flow shuffle(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = converge(warp, in.s[3]); flow != Flow::next) return flow;
  const std::uint32_t mask = warp.split().mask;
  std::uint32_t a[32], result[32] = {}, in_range = 0;
  const Unwritten given = warp.follows_unwritten() ? warp.unwritten(in.s[0]) : Unwritten{};
  Unwritten taken{0, given.source};
  std::memcpy(a, warp.lanes<std::uint32_t>(in.s[0]), sizeof a);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const auto b = static_cast<int>(warp.lanes<std::uint32_t>(in.s[1])[lane] & 31);
    const auto c = warp.lanes<std::uint32_t>(in.s[2])[lane];
    const int clamp = static_cast<int>(c & 31), segment = static_cast<int>(c >> 8 & 31);
    const int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int from = lane;
    bool inside = false;
    switch (static_cast<Direction>(in.kind)) {
      case Direction::up:
        from = lane - b;
        inside = from >= most;
        break;
      case Direction::down:
        from = lane + b;
        inside = from <= most;
        break;
      case Direction::butterfly:
        from = lane ^ b;
        inside = from <= most;
        break;
      case Direction::index:
        from = least | (b & ~segment);
        inside = from <= most;
        break;
    }
    if (!inside) from = lane;
    if (inside) in_range |= 1u << lane;
    if (!(mask >> from & 1)) {
      warp.fail(lane, "it reads lane " + std::to_string(from) + ", which does not take part");
    }
    result[lane] = a[from];
    taken.lanes |= (given.lanes >> from & 1) << lane;
  }
  auto* d = warp.lanes<std::uint32_t>(in.d);
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) d[lane] = result[lane];
  }
  if (warp.follows_unwritten()) warp.set_unwritten(in.d, mask, taken);
  if (in.d2 != no_place) {
    set_predicate(warp, in.d2, mask, in_range);
    if (warp.follows_unwritten()) warp.set_unwritten(in.d2, mask, {});
  }
  return Flow::next;
}

void decode_shuffle(Decoder& d) {
  if (!d.modifiers.take("sync")) d.refuse("without .sync");
  const int direction = d.modifiers.choose({"up", "down", "bfly", "idx"}, -1);
  if (direction < 0) d.fail(".up, .down, .bfly or .idx is missing");
  d.in.kind = static_cast<std::uint8_t>(direction);
  if (bits_of(d.demand_type()) != 32) d.fail("it is for .b32");
  d.demand_operands(5);
  const Operand& result = d.operand(0);
  const bool pair = result.kind == Operand::Kind::pair;
  d.in.d = d.result_of(pair ? result.parts[0] : result, 32);
  if (pair) d.in.d2 = d.result_of(result.parts[1], 1);
  for (std::size_t i = 0; i < 4; ++i) d.in.s[i] = d.source(i + 1, Type::b32);
  d.in.meets = true;
  d.in.carries = d.in.exchanges = true;
  d.in.act = shuffle;
}

/// s[0]: the members. What lies before it in memory is seen behind it.
Flow warp_barrier(Warp& warp, const Instruction& in, std::uint32_t) {
  const Members members = members_of(warp, in.s[0]);
  // It may be another instruction that the lanes wait at.
  std::uint32_t wanted = members[static_cast<std::size_t>(std::countr_zero(warp.split().mask))];
  std::uint32_t here = warp.split().mask;
  for (const Split& other : warp.splits()) {
    const Instruction& its = warp.program().code[other.pc];
    if (other.state != Split::State::waits || its.act != warp_barrier) continue;
    const int first = std::countr_zero(other.mask);
    if (warp.lanes<std::uint32_t>(its.s[0])[first] == wanted) here |= other.mask;
  }
  const std::uint32_t own = warp.split().mask;
  if (here != own && (wanted & warp.alive() & ~here) == 0) {
    warp.order_accesses(here);
    warp.release_waiting(here & ~own);
    return Flow::next;
  }
  if (const Flow flow = warp.converge(members); flow != Flow::next) return flow;
  each_group(warp, members, [&](std::uint32_t same) { warp.order_accesses(same); });
  return Flow::next;
}

}  // namespace

void Warp::order_accesses(std::uint32_t mask) {
  if (!block_.checker()) return;
  std::vector<int> met;
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) met.push_back(thread(lane));
  }
  block_.checker()->meet(met);
}

bool decode_warp(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  if (base == "shfl") {
    decode_shuffle(d);
  } else if (base == "bar" && d.modifiers.take("warp")) {
    if (!d.modifiers.take("sync")) d.fail(".sync is missing");
    d.demand_operands(1);
    d.in.s[0] = d.source(0, Type::b32);
    d.in.meets = true;
    d.in.act = warp_barrier;
  } else {
    return decode_vote_of_warp(d, base);
  }
  return true;
}

}  // namespace lanescope::ptx

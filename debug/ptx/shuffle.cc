// PTX ISA, "Parallel Synchronization and Communication Instructions": what the lanes of a warp do
// together. "Waits until all non-exited threads corresponding to membermask have executed" it.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "debug/ptx/block.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"
#include "debug/ptx/warp_members.h"
#include "reference/site.h"

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

/// Which lane each takes its number from, and the lanes for which that is in range (PTX ISA,
/// shfl.sync). Those out of range take their own.
template <Direction direction>
std::uint32_t find_sources(const std::uint32_t* b, const std::uint32_t* c,
                           std::uint32_t (&sources)[32]) {
  std::uint32_t in_range = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t segment = c[lane] >> 8 & 31, clamp = c[lane] & 31, by = b[lane] & 31;
    const std::uint32_t most = (lane & segment) | (clamp & ~segment);
    std::uint32_t from = (lane & segment) | (by & ~segment);
    if (direction == Direction::up) from = lane - by;
    if (direction == Direction::down) from = lane + by;
    if (direction == Direction::butterfly) from = lane ^ by;
    const auto at = static_cast<std::int32_t>(from), end = static_cast<std::int32_t>(most);
    const bool inside = direction == Direction::up ? at >= end : at <= end;
    sources[lane] = inside ? from : lane;
    in_range |= static_cast<std::uint32_t>(inside) << lane;
  }
  return in_range;
}

/// s[0]: a, s[1]: b, s[2]: c, s[3]: the members.
template <Direction direction>
Flow shuffle(Warp& warp, const Instruction& in, std::uint32_t) {
  if (const Flow flow = converge(warp, in.s[3]); flow != Flow::next) return flow;
  const std::uint32_t mask = warp.split().mask;
  warp.note_exchange(mask);
  std::uint32_t a[32], sources[32];
  const std::uint32_t in_range = find_sources<direction>(
      warp.lanes<std::uint32_t>(in.s[1]), warp.lanes<std::uint32_t>(in.s[2]), sources);
  std::memcpy(a, warp.lanes<std::uint32_t>(in.s[0]), sizeof a);
  const Unwritten given = warp.follows_unwritten() ? warp.unwritten(in.s[0]) : Unwritten{};
  Unwritten taken{0, given.source};
  auto* d = warp.lanes<std::uint32_t>(in.d);
  std::uint32_t absent = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const std::uint32_t from = sources[lane];
    if (mask >> from & 1) {
      d[lane] = a[from];
      taken.lanes |= (given.lanes >> from & 1) << lane;
    } else {
      // Any value: a NaN, unless its use is found anyway.
      d[lane] = warp.follows_unwritten() ? a[from] : poison32;
      absent |= 1u << lane;
      sources[lane] = lane;
    }
  }
  if (absent != 0 && warp.follows_unwritten()) {
    taken = {taken.lanes | absent, warp.note_absent_lane(std::countr_zero(absent))};
  }
  if (Recording* recording = warp.recording()) {
    std::array<std::uint8_t, 32> lanes{};
    std::copy_n(sources, 32, lanes.begin());
    recording->note_lanes(lanes);
  }
  if (warp.follows_unwritten()) warp.set_unwritten(in.d, mask, taken);
  if (in.d2 != no_place) {
    set_predicate(warp, in.d2, mask, in_range & mask);
    if (warp.follows_unwritten()) warp.set_unwritten(in.d2, mask, {});
  }
  return Flow::next;
}

void decode_shuffle(Decoder& d) {
  if (!d.modifiers.take("sync")) d.refuse("without .sync");
  const int direction = d.modifiers.choose({"up", "down", "bfly", "idx"}, -1);
  if (direction < 0) d.fail(".up, .down, .bfly or .idx is missing");
  if (bits_of(d.demand_type()) != 32) d.fail("it is for .b32");
  d.demand_operands(5);
  const Operand& result = d.operand(0);
  const bool pair = result.kind == Operand::Kind::pair;
  d.in.d = d.result_of(pair ? result.parts[0] : result, 32);
  if (pair) d.in.d2 = d.result_of(result.parts[1], 1);
  for (std::size_t i = 0; i < 4; ++i) d.in.s[i] = d.source(i + 1, Type::b32);
  d.in.meets = true;
  d.in.carries = d.in.exchanges = true;
  static constexpr WarpOperation forms[] = {shuffle<Direction::up>, shuffle<Direction::down>,
                                            shuffle<Direction::butterfly>,
                                            shuffle<Direction::index>};
  d.in.act = forms[direction];
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

void Warp::share_waits() {
  std::array<int, 32> lanes{};
  std::iota(lanes.begin(), lanes.end(), thread(0));
  block_.checker()->clocks().share_waits(lanes);
}

void Warp::note_exchange(std::uint32_t mask) {
  if (block_.checker() && mask == ~0u) block_.checker()->clocks().exchange(thread(0) / 32);
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

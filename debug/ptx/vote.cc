// PTX ISA, "Parallel Synchronization and Communication Instructions": what the lanes of a warp find
// out of each other: vote, match, redux, elect, activemask.

#include <bit>
#include <utility>

#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"
#include "debug/ptx/warp_members.h"

namespace lanescope::ptx {
namespace {

enum class VoteKind : std::uint8_t { all, any, uniform, ballot };

/// s[0]: the predicate, negated where immediate is 1, s[1]: the members.
Flow vote(Warp& warp, const Instruction& in, std::uint32_t) {
  const Members members = members_of(warp, in.s[1]);
  if (const Flow flow = warp.converge(members); flow != Flow::next) return flow;
  each_group(warp, members, [&](std::uint32_t same) {
    const std::uint32_t given = warp.predicate(in.s[0]);
    const std::uint32_t holds = (in.immediate ? ~given : given) & same;
    const auto kind = static_cast<VoteKind>(in.kind);
    if (kind == VoteKind::ballot) {
      for (int lane = 0; lane < 32; ++lane) {
        if (same >> lane & 1) warp.lanes<std::uint32_t>(in.d)[lane] = holds;
      }
      return;
    }
    const bool result = kind == VoteKind::all   ? holds == same
                        : kind == VoteKind::any ? holds != 0
                                                : holds == 0 || holds == same;
    set_predicate(warp, in.d, same, result ? ~0u : 0);
  });
  return Flow::next;
}

void decode_vote(Decoder& d) {
  if (!d.modifiers.take("sync")) d.refuse("without .sync");
  const int kind = d.modifiers.choose({"all", "any", "uni", "ballot"}, -1);
  if (kind < 0) d.fail(".all, .any, .uni or .ballot is missing");
  d.in.kind = static_cast<std::uint8_t>(kind);
  d.demand_type();
  d.demand_operands(3);
  d.in.d = d.result(0, kind == 3 ? Type::b32 : Type::pred);
  Operand predicate = d.operand(1);
  d.in.immediate = std::exchange(predicate.negated, false) ? 1 : 0;
  d.in.s[0] = d.source_of(predicate, Type::pred);
  d.in.s[1] = d.source(2, Type::b32);
  d.in.meets = true;
  d.in.act = vote;
}

/// s[0]: a, s[1]: the members; kind 1: all must be equal.
template <class T>
Flow match(Warp& warp, const Instruction& in, std::uint32_t) {
  const Members members = members_of(warp, in.s[1]);
  if (const Flow flow = warp.converge(members); flow != Flow::next) return flow;
  each_group(warp, members, [&](std::uint32_t same) {
    T a[32];
    std::memcpy(a, warp.lanes<T>(in.s[0]), sizeof a);
    auto* d = warp.lanes<std::uint32_t>(in.d);
    for (int lane = 0; lane < 32; ++lane) {
      if (!(same >> lane & 1)) continue;
      std::uint32_t equal = 0;
      for (int other = 0; other < 32; ++other) {
        if (same >> other & 1 && a[other] == a[lane]) equal |= 1u << other;
      }
      d[lane] = in.kind == 0 ? equal : equal == same ? same : 0;
      if (in.d2 != no_place) set_predicate(warp, in.d2, 1u << lane, equal == same ? ~0u : 0);
    }
  });
  return Flow::next;
}

void decode_match(Decoder& d) {
  const int kind = d.modifiers.choose({"any", "all"}, -1);
  if (kind < 0 || !d.modifiers.take("sync")) d.fail(".any.sync or .all.sync is expected");
  d.in.kind = static_cast<std::uint8_t>(kind);
  const Type type = d.demand_type();
  d.demand_operands(3);
  const Operand& result = d.operand(0);
  const bool pair = result.kind == Operand::Kind::pair;
  d.in.d = d.result_of(pair ? result.parts[0] : result, 32);
  if (pair) d.in.d2 = d.result_of(result.parts[1], 1);
  d.in.s[0] = d.source(1, type);
  d.in.s[1] = d.source(2, Type::b32);
  d.in.meets = true;
  d.in.act = bits_of(type) == 64 ? match<std::uint64_t> : match<std::uint32_t>;
}

enum class Reduction : std::uint8_t { add, min, max, bit_and, bit_or, bit_xor };

std::uint32_t reduce_two(Reduction reduction, bool has_sign, std::uint32_t a, std::uint32_t b) {
  const bool less = has_sign ? static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) : a < b;
  switch (reduction) {
    case Reduction::add:
      return a + b;
    case Reduction::min:
      return less ? a : b;
    case Reduction::max:
      return less ? b : a;
    case Reduction::bit_and:
      return a & b;
    case Reduction::bit_or:
      return a | b;
    default:
      return a ^ b;
  }
}

/// s[0]: a, s[1]: the members.
Flow reduce(Warp& warp, const Instruction& in, std::uint32_t) {
  const Members members = members_of(warp, in.s[1]);
  if (const Flow flow = warp.converge(members); flow != Flow::next) return flow;
  each_group(warp, members, [&](std::uint32_t same) {
    const auto* a = warp.lanes<std::uint32_t>(in.s[0]);
    std::uint32_t result = a[std::countr_zero(same)];
    for (int lane = std::countr_zero(same) + 1; lane < 32; ++lane) {
      if (same >> lane & 1)
        result = reduce_two(static_cast<Reduction>(in.kind), is_signed(in.type), result, a[lane]);
    }
    for (int lane = 0; lane < 32; ++lane) {
      if (same >> lane & 1) warp.lanes<std::uint32_t>(in.d)[lane] = result;
    }
  });
  return Flow::next;
}

void decode_reduction(Decoder& d) {
  if (!d.modifiers.take("sync")) d.fail(".sync is missing");
  const int kind = d.modifiers.choose({"add", "min", "max", "and", "or", "xor"}, -1);
  if (kind < 0) d.fail("it names no operation");
  d.in.kind = static_cast<std::uint8_t>(kind);
  d.in.type = d.demand_type();
  if (is_float(d.in.type)) d.refuse("of this type");
  d.demand_operands(3);
  d.in.d = d.result(0, Type::b32);
  d.in.s[0] = d.source(1, Type::b32);
  d.in.s[1] = d.source(2, Type::b32);
  d.in.meets = true;
  d.in.act = reduce;
}

/// The lowest of the members is elected.
Flow elect(Warp& warp, const Instruction& in, std::uint32_t) {
  const Members members = members_of(warp, in.s[0]);
  if (const Flow flow = warp.converge(members); flow != Flow::next) return flow;
  each_group(warp, members, [&](std::uint32_t same) {
    const int leader = std::countr_zero(same);
    for (int lane = 0; lane < 32; ++lane) {
      if (same >> lane & 1)
        warp.lanes<std::uint32_t>(in.d)[lane] = static_cast<std::uint32_t>(leader);
    }
    set_predicate(warp, in.d2, same, 1u << leader);
  });
  return Flow::next;
}

Flow active_mask(Warp& warp, const Instruction& in, std::uint32_t mask) {
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) warp.lanes<std::uint32_t>(in.d)[lane] = mask;
  }
  return Flow::next;
}

}  // namespace

bool decode_vote_of_warp(Decoder& d, std::string_view base) {
  if (base == "vote") {
    decode_vote(d);
  } else if (base == "match") {
    decode_match(d);
  } else if (base == "redux") {
    decode_reduction(d);
  } else if (base == "elect") {
    d.modifiers.take("sync");
    d.demand_operands(2);
    const Operand& result = d.operand(0);
    if (result.kind != Operand::Kind::pair) d.fail("d|p is expected");
    d.in.d = d.result_of(result.parts[0], 32);
    d.in.d2 = d.result_of(result.parts[1], 1);
    d.in.s[0] = d.source(1, Type::b32);
    d.in.meets = true;
    d.in.act = elect;
  } else if (base == "activemask") {
    d.demand_type();
    d.demand_operands(1);
    d.in.d = d.result(0, Type::b32);
    d.in.act = active_mask;
  } else {
    return false;
  }
  return true;
}

}  // namespace lanescope::ptx

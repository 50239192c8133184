// PTX ISA, "Parallel Synchronization and Communication Instructions": the barriers of a block and
// of a cluster.

#include <bit>
#include <string>
#include <utility>

#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/program_builder.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {
namespace {

enum class BarrierKind : std::uint8_t { sync, arrive, popc, all, any };

/// The first operand in s[0], the number of threads in s[1] where `vector` is 2; a vote in s[2].
template <bool aligned>
Flow barrier(Warp& warp, const Instruction& in, std::uint32_t) {
  if (aligned && warp.converge_all() == Flow::waits) return Flow::waits;
  const std::uint32_t mask = warp.split().mask;
  const int first = std::countr_zero(mask);
  const std::uint32_t id = warp.lanes<std::uint32_t>(in.s[0])[first];
  const std::uint32_t expected = in.vector == 2 ? warp.lanes<std::uint32_t>(in.s[1])[first] : 0;
  if (id > 15) warp.fail(first, "there is no barrier " + std::to_string(id) + ": a block has 16");
  if (expected % 32 != 0) {
    warp.fail(first, std::to_string(expected) + " threads are no multiple of a warp");
  }
  const auto kind = static_cast<BarrierKind>(in.kind);
  const bool waits = kind != BarrierKind::arrive;
  int votes = 0;
  if (in.s[2] != no_place && kind >= BarrierKind::popc) {
    const std::uint32_t vote = warp.predicate(in.s[2]);
    votes = std::popcount((in.immediate ? ~vote : vote) & mask);
  }
  const int counted = aligned && expected != 0 ? 32 : std::popcount(mask);
  warp.split().barrier = static_cast<int>(id);
  const auto vote = warp.block().arrive(warp, static_cast<int>(id), {warp.index(), mask, waits},
                                        counted, static_cast<int>(expected), votes);
  if (vote) {
    warp.write_vote(in, mask, *vote);
    return Flow::next;
  }
  return waits ? Flow::arrived : Flow::next;
}

/// kind 1: .relaxed.
template <bool aligned>
Flow arrive_at_cluster(Warp& warp, const Instruction& in, std::uint32_t) {
  if (aligned && warp.converge_all() == Flow::waits) return Flow::waits;
  warp.arrive_at_cluster();
  // A release of the cluster's scope is more than fence.mbarrier_init.
  const std::uint32_t mask = in.kind == 0 && warp.block().checker() ? warp.split().mask : 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    warp.block().async().fence_init(warp.thread(std::countr_zero(left)));
  }
  return Flow::next;
}

template <bool aligned>
Flow wait_for_cluster(Warp& warp, const Instruction&, std::uint32_t) {
  if (aligned && warp.converge_all() == Flow::waits) return Flow::waits;
  if (warp.leave_cluster_barrier()) return Flow::next;
  warp.split().waits_for = &warp.block().cluster().barrier();
  return Flow::polls;
}

void decode_block_barrier(Decoder& d, bool aligned) {
  if (d.modifiers.take("cluster")) {
    const int kind = d.modifiers.choose({"arrive", "wait"}, 0);
    d.modifiers.ignore({"release", "acquire"});
    d.in.kind = d.modifiers.take("relaxed") ? 1 : 0;
    const bool all_meet = d.modifiers.take("aligned");
    d.demand_operands(0);
    d.in.meets = true;
    d.in.act = kind == 0 ? (all_meet ? arrive_at_cluster<true> : arrive_at_cluster<false>)
                         : (all_meet ? wait_for_cluster<true> : wait_for_cluster<false>);
    return;
  }
  if (d.modifiers.take("warp")) d.fail("the machine does not know this instruction");
  aligned |= d.modifiers.take("aligned");
  d.modifiers.take("cta");
  const int kind = d.modifiers.choose({"sync", "arrive", "red"}, -1);
  if (kind < 0) d.fail(".sync, .arrive or .red is missing");
  std::size_t at = 0;
  d.in.kind = static_cast<std::uint8_t>(kind);
  d.in.s[2] = no_place;
  if (kind == 2) {
    const int operation = d.modifiers.choose({"popc", "and", "or"}, 0);
    d.in.kind = static_cast<std::uint8_t>(2 + operation);
    const Type type = d.demand_type();
    d.in.type = type;
    d.in.d = d.result(at++, type);
  }
  d.demand_operands(at + 1, at + 3);
  d.in.s[0] = d.source(at++, Type::b32);
  const std::size_t left = d.operand_count() - at;
  if (left == (kind == 2 ? 2u : 1u)) {
    d.in.vector = 2;
    d.in.s[1] = d.source(at++, Type::b32);
  } else if (kind == 1) {
    d.fail("the number of threads is missing");
  }
  if (kind == 2) {
    Operand vote = d.operand(at);
    d.in.immediate = std::exchange(vote.negated, false) ? 1 : 0;
    d.in.s[2] = d.source_of(vote, Type::pred);
  }
  d.in.meets = true;
  d.in.act = aligned ? barrier<true> : barrier<false>;
}

}  // namespace

void Warp::arrive_at_cluster() {
  Cluster& cluster = block_.cluster();
  const std::uint32_t mask = current_->mask;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    std::uint32_t& phase = cluster_phase_[static_cast<std::size_t>(lane)];
    if (phase != 0) fail(lane, "the lane comes a second time without barrier.cluster.wait");
    phase = cluster.barrier().phase + 1;
    block_.arrive_at_cluster(thread(lane));
  }
  cluster.arrive(std::popcount(mask));
}

bool Warp::leave_cluster_barrier() {
  const std::uint32_t mask = current_->mask;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const std::uint32_t phase = cluster_phase_[static_cast<std::size_t>(lane)];
    if (phase == 0) fail(lane, "the lane waits without barrier.cluster.arrive");
    if (phase > block_.cluster().barrier().phase) return false;
  }
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    cluster_phase_[static_cast<std::size_t>(lane)] = 0;
    block_.leave_cluster_barrier(thread(lane));
  }
  return true;
}

void Warp::write_vote(const Instruction& in, std::uint32_t mask, const Vote& vote) {
  if (in.d == no_place) return;
  switch (static_cast<BarrierKind>(in.kind)) {
    case BarrierKind::popc:
      for (int lane = 0; lane < 32; ++lane) {
        if (mask >> lane & 1)
          lanes<std::uint32_t>(in.d)[lane] = static_cast<std::uint32_t>(vote.holds);
      }
      return;
    case BarrierKind::all:
      predicate(in.d) = (predicate(in.d) & ~mask) | (vote.holds == vote.lanes ? mask : 0);
      return;
    case BarrierKind::any:
      predicate(in.d) = (predicate(in.d) & ~mask) | (vote.holds > 0 ? mask : 0);
      return;
    default:
      return;
  }
}

bool decode_barrier(Decoder& d) {
  const std::string_view base = d.modifiers.base();
  const auto& words = d.modifiers.left();
  const bool of_warp = !words.empty() && words.front() == "warp";
  if (base != "barrier" && (base != "bar" || of_warp)) return false;
  decode_block_barrier(d, base == "bar");
  return true;
}

}  // namespace lanescope::ptx

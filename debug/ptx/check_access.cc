// What the memory checker is told of the accesses of a warp.

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>
#include <utility>

#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/tensor_map.h"
#include "debug/ptx/warp.h"
#include "debug/simt/matrix_descriptor.h"

namespace lanescope::ptx {

void Warp::check(Access access, std::uint32_t mask, std::size_t bytes, const Pointers& pointers,
                 bool orders) {
  if (!block_.checker()) return;
  // Of lanes that read the same bytes two stand for all: more reads are not kept.
  const std::byte *last = nullptr, *before_last = nullptr;
  AreaShadow::Held held;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const std::byte* at = pointers[static_cast<std::size_t>(lane)];
    if (access == Access::read && at == last && at == before_last) continue;
    before_last = std::exchange(last, at);
    if (access == Access::write) note_written(at, bytes);
    if (access == Access::read && !block_.checker()->follows_unwritten()) {
      tell_of_stored(lane, at, bytes);
    }
    if (orders && !block_.checker()->in_shared(at, bytes)) {
      check_ordering(access, lane, at, bytes, held);
    } else {
      check_lane(access, lane, at, bytes, bytes, false, held);
    }
  }
}

std::unique_lock<std::mutex> Warp::hold_order() {
  return block_.checker() ? block_.order().hold() : std::unique_lock<std::mutex>();
}

void Warp::check_update(Place old, int lane, const std::byte* at, std::size_t bytes, bool adds) {
  if (!block_.checker()) return;
  const std::uint32_t source = unwritten_source(lane, at, bytes);
  if (source != 0 && adds) {
    simt::Finding finding = block_.unwritten_sources[source - 1];
    finding.updates = true;
    block_.checker()->report(finding);
  }
  AreaShadow::Held held;
  check_ordering(Access::write, lane, at, bytes, held);
  note_written(at, bytes);
  if (source != 0 && old != no_place) set_unwritten(old, 1u << lane, {1u << lane, source - 1});
}

void Warp::check_sent(const SharedPlace& to, std::size_t bytes, bool updates, const void* full,
                      int lane) {
  if (!block_.checker()) return;
  const std::byte* at = to.block->shared() + to.offset;
  if (updates && to.block->checker()->is_unwritten(at, bytes)) {
    block_.checker()->add(simt::Kind::uninitialised_read,
                          {false, place_number(), block_.index(), thread(lane)}, {},
                          simt::shared_region, static_cast<std::int64_t>(to.offset), bytes);
  }
  AreaShadow::Held held;
  const auto sent =
      block_.cluster_shadow() ? std::optional(block_.order().send(full)) : std::nullopt;
  enter_cluster(*to.block, updates ? Access::update : Access::write, lane, at, bytes, updates, held,
                sent);
}

void Warp::note_initialised(simt::MbarrierState& barrier, int lane) {
  if (!block_.cluster_shadow()) return;
  barrier.initialised_by = {true, place_number(), block_.index(), thread(lane)};
  barrier.initialised_at = block_.time;
}

void Warp::check_initialised(Block& owner, const simt::MbarrierState& barrier, int lane) {
  if (&owner == &block_ || !owner.cluster_shadow()) return;
  const auto& [by, at] = std::tie(barrier.initialised_by, barrier.initialised_at);
  if (by.place == 0 || block_.order().holds(by.block, at, block_.index())) return;
  // It uses what the other writes.
  block_.checker()->add(simt::Kind::race, {false, place_number(), block_.index(), thread(lane)}, by,
                        simt::shared_region, static_cast<std::int64_t>(barrier.offset), 8);
}

void Warp::check_operands(const simt::IssuedProduct& product) {
  const simt::Product& what = product.what;
  const simt::Party party{false, product.place, block_.index(), thread(0)};
  const AreaShadow::Visit visit = visit_of(Access::read, party, false);
  AreaShadow::Held held;
  const auto read = [&](std::uint64_t descriptor, bool transposed, int rows) {
    simt::for_each_chunk(descriptor, transposed, 0, rows, [&](std::size_t address, int, int) {
      const std::size_t at = address - shared_begin;
      enter_cluster(block_, at, 16, visit, party, held);
    });
  };
  if (!what.a_in_registers) read(what.a, what.a_is_transposed, 64);
  read(what.b, what.b_is_transposed, what.n);
}

void Warp::check_ordering(Access access, int lane, const std::byte* at, std::size_t bytes,
                          AreaShadow::Held& held) {
  simt::BlockChecker& checker = *block_.checker();
  if (is_private(at)) return;
  checker.acquire(at, thread(lane));
  if (!checker.in_shared(at, bytes)) {
    // Without a fence before it, or being one itself, it tells nobody of what was written before
    // (PTX ISA, "Release and Acquire Patterns").
    const std::string_view opcode = program_.origins[pc()].opcode;
    const bool releases = block_.fenced || opcode.find(".release") != opcode.npos ||
                          opcode.find(".acq_rel") != opcode.npos;
    block_.time = block_.order().meet(at, block_.index(), !releases);
  }
  block_.learn_what_arrived(thread(lane));
  check_lane(access, lane, at, bytes, bytes, true, held);
  checker.release(at, thread(lane));
}

void Warp::check_lane(Access access, int lane, const std::byte* at, std::size_t bytes,
                      std::size_t alignment, bool orders, AreaShadow::Held& held) {
  simt::BlockChecker& checker = *block_.checker();
  if (is_private(at)) return;
  if (Block* other = other_block_of(at)) {
    enter_cluster(*other, access, lane, at, bytes, orders, held);
    if (access != Access::read) other->checker()->write_from_outside(at, bytes);
    return;
  }
  if (checker.in_shared(at, bytes)) {
    if (block_.cluster_shadow()) enter_cluster(block_, access, lane, at, bytes, orders, held);
  } else {
    const auto address = std::bit_cast<std::uint64_t>(at);
    const GlobalMemory::Area* area = find_area(address, bytes);
    if (area && area->shadow) {
      enter_area(*area, access, lane, address, bytes, orders, held);
      if (address % alignment == 0) return;
      const simt::Party party{access != Access::read, place_number(), block_.index(), thread(lane)};
      return checker.add(simt::Kind::misaligned, party, {}, area->region,
                         static_cast<std::int64_t>(address - area->begin), bytes);
    }
  }
  if (!checker.access(access, at, bytes, alignment, place(), thread(lane))) {
    fail(lane, "an access outside of every buffer", FaultKind::illegal_address);
  }
}

void Warp::enter_area(const GlobalMemory::Area& area, Access access, int lane,
                      std::uint64_t address, std::size_t bytes, bool orders,
                      AreaShadow::Held& held) {
  simt::BlockChecker& checker = *block_.checker();
  const simt::Party party{access != Access::read, place_number(), block_.index(), thread(lane)};
  if (!area.holds(address, bytes)) {
    return checker.add(simt::Kind::out_of_bounds, party, {}, area.region,
                       static_cast<std::int64_t>(address - area.begin), bytes);
  }
  const AreaShadow::Verdict found = area.shadow->enter(
      address - area.begin, bytes, visit_of(access, party, orders), block_.order(), held);
  if (found.unwritten) checker.meet_unwritten();
  if (found.kind == simt::Kind::none) return;
  if (found.kind == simt::Kind::uninitialised_read && checker.follows_unwritten()) return;
  checker.add(found.kind, party, found.earlier, area.region,
              static_cast<std::int64_t>(found.offset), bytes);
}

/// Within a block its checker orders the lanes; here it is told of what other blocks did.
void Warp::enter_cluster(Block& owner, Access access, int lane, const std::byte* at,
                         std::size_t bytes, bool orders, AreaShadow::Held& held,
                         std::optional<std::uint32_t> sent) {
  const simt::Party party{access != Access::read, place_number(), block_.index(), thread(lane)};
  AreaShadow::Visit visit = visit_of(access, party, orders);
  visit.sent = sent.has_value();
  if (sent) visit.time = *sent;
  enter_cluster(owner, static_cast<std::size_t>(at - owner.shared()), bytes, visit, party, held);
}

void Warp::enter_cluster(Block& owner, std::size_t offset, std::size_t bytes,
                         const AreaShadow::Visit& visit, const simt::Party& party,
                         AreaShadow::Held& held) {
  const AreaShadow::Verdict found =
      owner.cluster_shadow()->enter(offset, bytes, visit, block_.order(), held);
  if (found.kind == simt::Kind::none || found.earlier.block == block_.index()) return;
  block_.checker()->add(found.kind, party, found.earlier, simt::shared_region,
                        static_cast<std::int64_t>(found.offset), bytes);
}

void Warp::note_arrival_at(Block& other, int lane) {
  if (!block_.checker()) return;
  other.note_arrival_from({true, place_number(), block_.index(), thread(lane)}, block_.time);
}

void Warp::check_end(int lane) {
  AreaShadow* const shadow = block_.cluster_shadow();
  if (!shadow) return;
  const simt::Party party{true, place_number(), block_.index(), thread(lane)};
  const AreaShadow::Visit visit = visit_of(Access::write, party, false);
  constexpr std::size_t step = 16;  // of one, the first is told that it collides with
  AreaShadow::Held held;
  for (std::size_t at = 0; at < block_.shared_bytes(); at += step) {
    const std::size_t bytes = std::min(step, block_.shared_bytes() - at);
    const simt::Party other = shadow->enter(at, bytes, visit, block_.order(), held).earlier;
    // A copy that may come yet is told by its sender.
    if (other.block < 0 || other.block == block_.index() || other.write) continue;
    fail_at_end(lane, other, "read its shared memory");
  }
  if (const auto late = block_.late_arrival()) fail_at_end(lane, *late, "arrive at its mbarriers");
}

void Warp::fail_at_end(int lane, const simt::Party& other, const std::string& does) {
  fail(lane,
       "the block exits while block " + std::to_string(other.block) + " of its cluster may still " +
           does + ", " + program_.describe(other.place - block_.grid().first_place) +
           ": a barrier.cluster before its end is missing",
       FaultKind::illegal_address);
}

TensorMapOrder::Moment Warp::moment(int lane) {
  const simt::Clocks& clocks = block_.checker()->clocks();
  return {{false, place_number(), block_.index(), thread(lane)},
          clocks.now(thread(lane)),
          clocks.past(thread(lane)),
          block_.time};
}

void Warp::check_map(const std::byte* map, int lane) {
  if (!block_.checker()) return;
  const TensorMapOrder::Moment me = moment(lane);
  const auto address = std::bit_cast<std::uint64_t>(map);
  const std::optional<simt::Party> writer = block_.maps().use(address, me, block_.order());
  if (!writer) return;
  const GlobalMemory::Area* area = find_area(address, sizeof(TensorMapBytes));
  block_.checker()->add(
      simt::Kind::missing_map_fence, me.party, *writer, area ? area->region : simt::nowhere,
      area ? static_cast<std::int64_t>(address - area->begin) : 0, sizeof(TensorMapBytes));
}

AreaShadow::Visit Warp::visit_of(Access access, const simt::Party& party, bool orders) {
  const simt::Clocks& clocks = block_.checker()->clocks();
  return {party.write,
          access == Access::rewrite,
          orders,
          false,
          party.block,
          block_.time,
          block_.is_after_last_grid(party.thread),
          {clocks.now(party.thread), party.place},
          clocks.past(party.thread)};
}

bool Warp::is_private(const std::byte* at) const {
  const auto* parameters = static_cast<const std::byte*>(block_.grid().parameters);
  return static_cast<std::size_t>(at - local_.data()) < local_.size() ||
         static_cast<std::size_t>(at - parameters) < program_.parameter_bytes;
}

}  // namespace lanescope::ptx

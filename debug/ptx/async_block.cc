// What a block has under way on the asynchronous machine of debug/simt, and its lanes that wait for
// it.

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"

namespace lanescope::ptx {

simt::AsyncBlock& Block::async() {
  if (!async_) {
    async_ = std::make_unique<simt::AsyncBlock>(*this, static_cast<int>(warps_.size()) * 32);
  }
  return *async_;
}

simt::Here Block::line_of(std::uint32_t instruction) {
  const auto [known, is_new] = lines_.try_emplace(instruction);
  if (is_new) {
    const std::string line = program_.line_of(instruction);
    const std::size_t colon = line.rfind(':');
    known->second = {line.substr(0, colon),
                     static_cast<unsigned>(std::stoul(line.substr(colon + 1)))};
  }
  simt::Here here;
  here.file = known->second.first.c_str();
  here.line = known->second.second;
  return here;
}

std::string Block::describe_shared(std::size_t offset) const {
  return "shared memory + " + std::to_string(offset);
}

bool Block::access_global(simt::BlockChecker::Access access, const std::byte* at, std::size_t bytes,
                          const simt::Caller& caller) {
  Warp& warp = *warps_[static_cast<std::size_t>(caller.thread / 32)];
  return warp.access_global(access, caller.thread % 32, at, bytes);
}

void Block::note_written(std::size_t offset, std::size_t bytes) {
  if (unwritten_shared.empty()) return;
  std::fill_n(&unwritten_shared[offset], bytes, 0);
}

void Block::note_copied(const std::byte* to, const std::byte* from, std::size_t bytes, bool updates,
                        const simt::Caller& caller) {
  if (bytes == 0) return;
  const auto place = static_cast<std::uint32_t>(std::bit_cast<std::uintptr_t>(caller.pc));
  recording_.add_landed(place - grid_.first_place, caller.thread / 32,
                        {caller.thread % 32, to, from, bytes, updates});
}

void Block::wake(int thread) {
  ++progress_;
  warps_[static_cast<std::size_t>(thread / 32)]->wake(1u << (thread % 32), false);
}

void Block::fail(const simt::Caller& caller, const std::string& what) {
  if (caller.from_outside) {
    const auto place = static_cast<std::uint32_t>(std::bit_cast<std::uintptr_t>(caller.pc));
    fail(program_.describe(place - grid_.first_place) +
         " of a thread of another block of the cluster: " + what);
  }
  warps_[static_cast<std::size_t>(caller.thread / 32)]->fail(caller.thread % 32, what);
}

bool Block::move_on() {
  if (!async_ || alive() == 0) return false;
  if (async_->land_one(grid_.schedule != 0 ? order_() : 0)) {
    ++progress_;
    return true;
  }
  // mbarrier.try_wait may return false at any time. Who is told so and comes back with nothing
  // done in between waits in vain.
  constexpr int rounds = 4;
  rounds_in_vain_ = progress_ == progress_told_ ? rounds_in_vain_ + 1 : 0;
  progress_told_ = progress_;
  if (rounds_in_vain_ > rounds) return false;
  bool any = false;
  for (const auto& warp : warps_) any = warp->wake(~0u, true) || any;
  return any;
}

void Block::meet_in_cluster(const void* what, bool of_reads) {
  if (!cluster_shadow_) return;
  const auto held = order().hold();
  time = order().meet(what, block_, of_reads);
}

void Block::acknowledge(const simt::MbarrierState& barrier) {
  if (!cluster_shadow_) return;
  for (simt::AsyncBlock* sender : barrier.senders) {
    auto& block = static_cast<Block&>(sender->host());
    block.acknowledgements_.push_back({&barrier, sender->landed_on(barrier), block_, time});
  }
}

void Block::note_arrival_from(const simt::Party& lane, std::uint32_t time) {
  if (cluster_shadow_) remote_arrivals_[lane.block] = {lane, time};
}

std::optional<simt::Party> Block::late_arrival() const {
  for (const auto& [block, arrival] : remote_arrivals_) {
    // What the other block does next has the time that this arrival brought.
    if (!order_of_grid_.blocks.holds_read(block, arrival.time - 1, block_)) return arrival.lane;
  }
  return std::nullopt;
}

void Block::learn_what_arrived(int thread) {
  if (acknowledgements_.empty() && known_to_arrive_.empty()) return;
  std::erase_if(acknowledgements_, [&](const Acknowledgement& a) {
    if (!order().holds(a.block, a.time, block_)) return false;
    std::uint32_t& known = known_to_arrive_[a.full];
    known = std::max(known, a.count);
    return true;
  });
  for (const auto& [full, count] : known_to_arrive_) async_->learn_landed(*full, count, thread);
}

void Block::arrive_at_cluster(int thread) {
  if (checker_) checker_->clocks().give(cluster_arrivals_, thread);
}

void Block::leave_cluster_barrier(int thread) {
  if (checker_) checker_->clocks().take(cluster_completed_, thread);
  learn_what_arrived(thread);
}

void Block::open_cluster_barrier() {
  ++progress_;
  cluster_completed_ = std::exchange(cluster_arrivals_, {});
  for (const auto& warp : warps_) warp->wake_from(cluster_.barrier());
}

void Warp::wake_from(const simt::Waitable& what) {
  for (Split& split : splits_) {
    if (split.state == Split::State::polls && split.waits_for == &what) {
      split.state = Split::State::ready;
    }
  }
}

bool Warp::wake(std::uint32_t lanes, bool in_vain) {
  bool any = false;
  for (Split& split : splits_) {
    if (split.state != Split::State::polls || (split.mask & lanes) == 0) continue;
    if (in_vain && !program_.code[split.pc].may_fail) continue;
    split.state = Split::State::ready;
    split.told_in_vain = in_vain;
    any = true;
  }
  return any;
}

simt::Caller Warp::caller(int lane) { return {thread(lane), "", block_.line_of(pc()), place()}; }

bool Warp::access_global(Access access, int lane, const std::byte* at, std::size_t bytes) {
  const auto address = std::bit_cast<std::uint64_t>(at);
  if (!find_area(address, bytes)) {
    fail(lane, block_.grid().memory->describe(address), FaultKind::illegal_address);
  }
  AreaShadow::Held held;
  if (block_.checker()) check_lane(access, lane, at, bytes, 1, access == Access::update, held);
  return true;
}

Warp::SharedPlace Warp::shared_place(Space space, std::uint64_t address, std::size_t bytes,
                                     int lane) {
  const std::byte* at = locate(space, address, bytes, lane);
  Block* other = other_block_of(at);
  if (!other) return {&block_, shared_offset(space, address, bytes, lane)};
  return {other, static_cast<std::size_t>(at - other->shared())};
}

std::size_t Warp::shared_offset(Space space, std::uint64_t address, std::size_t bytes, int lane) {
  const std::byte* at = locate(space, address, bytes, lane);
  const auto offset = static_cast<std::size_t>(at - shared_);
  if (offset > shared_bytes_ || bytes > shared_bytes_ - offset) {
    fail(lane, "the address is not one of the block's shared memory", FaultKind::illegal_address);
  }
  return offset;
}

std::size_t Warp::shared_offset(const Instruction& in, std::size_t bytes, int lane) {
  return shared_offset(in.space, address_of(in, lane), bytes, lane);
}

}  // namespace lanescope::ptx

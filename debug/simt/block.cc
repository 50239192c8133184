#include "debug/simt/block.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "debug/simt/describe.h"
#include "reference/site.h"

namespace lanescope::simt {
namespace {

constexpr std::size_t shared_alignment = 1024;
constexpr const char* barrier_name = "block_sync";

bool same_place(Here a, Here b) {
  return a.line == b.line && a.column == b.column &&
         (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

std::string lane_of_warp(int thread) {
  return "lane " + std::to_string(thread % 32) + " of warp " + std::to_string(thread / 32);
}

}  // namespace

constinit thread_local BlockRunner* BlockRunner::current_ = nullptr;

BlockRunner::BlockRunner(const Launch& launch, Sitting& sitting, StackPools& stacks)
    : blocks_(launch.blocks),
      sitting_(sitting),
      stacks_(stacks),
      lanes_(static_cast<std::size_t>(launch.threads)),
      warps_(static_cast<std::size_t>(launch.threads / 32)),
      shared_bytes_((launch.shared_bytes + 3) / 4 * 4),
      shared_element_(launch.shared_element),
      schedule_(launch.schedule),
      tensor_core_(launch.tensor_core) {
  std::size_t space = shared_bytes_ + shared_alignment + guard_bytes;
  memory_ = std::make_unique<std::byte[]>(guard_bytes + space);
  void* start = memory_.get() + guard_bytes;
  shared_ = static_cast<std::byte*>(std::align(shared_alignment, shared_bytes_, start, space));
  if (launch.checker) {
    checker_.emplace(*launch.checker, launch.threads, shared_, launch.shared_bytes);
  }
}

BlockRunner::~BlockRunner() = default;

void BlockRunner::run(std::int64_t block, void (*kernel)(const void*), const void* arguments) {
  block_ = block;
  tickets_ = 0;
  at_barrier_ = exited_ = 0;
  order_.seed(schedule_ + static_cast<std::uint64_t>(block) * 0x9e3779b97f4a7c15u);
  if (checker_) checker_->begin(block);
  error_.clear();
  ready_.clear();
  async_.reset();
  for (Warp& warp : warps_) warp = {};
  std::fill_n(reinterpret_cast<std::uint32_t*>(shared_), shared_bytes_ / 4, poison32);
  for (int i = 0; i < static_cast<int>(lanes_.size()); ++i) {
    Lane& lane = lanes_[static_cast<std::size_t>(i)];
    lane.exited = false;
    lane.unwindable = true;
    lane.waits_in = nullptr;
    lane.waits_for = nullptr;
    lane.copies.assign(1, {});
    lane.fiber = boost::context::fiber(std::allocator_arg,
                                       StackPool::Allocator{stacks_.get(), &lane.stack_end},
                                       [=, this](boost::context::fiber&& scheduler) {
                                         scheduler_ = std::move(scheduler);
                                         kernel(arguments);
                                         return std::move(scheduler_);
                                       });
    ready_.push_back(i);
  }
  run_lanes();
  if (error_.empty() && exited_ < static_cast<int>(lanes_.size())) error_ = describe_stuck();
  if (checker_ && error_.empty() && checker_->overflowed()) {
    error_ = "lanes meet more often than the memory checker can count";
  }
  if (checker_) checker_->end();
  if (error_.empty()) return;
  for (Lane& lane : lanes_) {
    if (!lane.unwindable) new boost::context::fiber(std::move(lane.fiber));  // lost on purpose
    lane.fiber = {};  // unwinds what is suspended
  }
  throw Fault(block_, "block " + std::to_string(block_) + ": " + error_);
}

void BlockRunner::run_lanes() {
  current_ = this;
  sitting_.begin_block(block_);
  while (error_.empty()) {
    // Copies come as late as they can, with a schedule at any time.
    const bool lands = async_ && !async_->idle() && schedule_ != 0 && order_() % 64 == 0;
    if (lands) async_->land_one(order_());
    if (ready_.empty()) {
      const bool over = exited_ == static_cast<int>(lanes_.size());
      if (!over && async_ && async_->land_one(schedule_ != 0 ? order_() : 0)) continue;
      break;
    }
    // Any lane that is ready may be next, as on a GPU.
    if (schedule_ != 0) std::swap(ready_.front(), ready_[order_() % ready_.size()]);
    const int thread = ready_.front();
    ready_.pop_front();
    resume(thread);
  }
  if (async_ && error_.empty()) async_->finish();
  sitting_.end_block();
  current_ = nullptr;
}

void BlockRunner::resume(int thread) {
  running_ = thread;
  sitting_.run_lane(thread);
  Lane& lane = lanes_[static_cast<std::size_t>(thread)];
  stack_end_ = lane.stack_end;
  lane.fiber = std::move(lane.fiber).resume();
  if (!lane.fiber) exit_lane(thread);
}

void BlockRunner::suspend() {
  const int self = running_;
  scheduler_ = std::move(scheduler_).resume();
  running_ = self;
}

void BlockRunner::wake(int thread) {
  Lane& lane = lanes_[static_cast<std::size_t>(thread)];
  lane.waits_in = nullptr;
  lane.waits_for = nullptr;
  ready_.push_back(thread);
}

void BlockRunner::park(const char* name, Here here, const Waitable* waits_for) {
  Lane& self = lane();
  self.waits_in = name;
  self.here = here;
  self.waits_for = waits_for;
  suspend();
}

AsyncBlock& BlockRunner::async() {
  if (!async_) async_ = std::make_unique<AsyncBlock>(*this, static_cast<int>(lanes_.size()));
  return *async_;
}

std::string BlockRunner::describe_shared(std::size_t offset) const {
  const char* tile = nullptr;
  int row = 0, col = 0;
  if (shared_element_ && shared_element_(static_cast<std::int64_t>(offset), &tile, &row, &col)) {
    return std::string(tile) + "[" + std::to_string(row) + "]" +
           (col == 0 ? "" : "[" + std::to_string(col) + "]");
  }
  return "shared memory + " + std::to_string(offset);
}

void BlockRunner::exit_lane(int thread) {
  Lane& lane = lanes_[static_cast<std::size_t>(thread)];
  lane.exited = true;
  ++exited_;
  Warp& warp = warps_[static_cast<std::size_t>(thread / 32)];
  warp.exited |= 1u << (thread % 32);
  for (const Meeting& meeting : warp.meetings) {
    if (meeting.mask >> (thread % 32) & 1) {
      error_ = "exited lane: " + lane_of_warp(thread) + " has exited, but lanes " +
               describe_lanes(meeting.arrived) + " wait for it in the call at " +
               describe(meeting.here) + " with mask " + describe_mask(meeting.mask);
      return;
    }
  }
  open_barrier_if_complete();
}

void BlockRunner::open_barrier_if_complete() {
  const int alive = static_cast<int>(lanes_.size()) - exited_;
  if (at_barrier_ == 0 || at_barrier_ < alive) return;
  const Here* first = nullptr;
  for (const Lane& lane : lanes_) {
    if (lane.exited) continue;
    if (!first) first = &lane.here;
    if (!same_place(*first, lane.here)) {
      error_ = "divergent barrier: " + describe_stuck();
      return;
    }
  }
  at_barrier_ = 0;
  std::vector<int> met;
  for (int i = 0; i < static_cast<int>(lanes_.size()); ++i) {
    if (!lanes_[static_cast<std::size_t>(i)].exited) met.push_back(i);
  }
  if (checker_) checker_->meet(met);
  for (const int thread : met) wake(thread);
}

void BlockRunner::meet_block(Here here) {
  Lane& self = lane();
  self.waits_in = barrier_name;
  self.here = here;
  ++at_barrier_;
  open_barrier_if_complete();
  suspend();
}

void BlockRunner::meet_warp(const char* name, WarpOperation operation, std::uint32_t mask,
                            void* slot, Here here) {
  const int self = running_;
  const int warp = self / 32, bit = self % 32;
  if (!(mask >> bit & 1)) {
    fail(name, here, "the calling lane is not in its own mask " + describe_mask(mask));
  }
  auto& [exited, meetings] = warps_[static_cast<std::size_t>(warp)];
  if (const std::uint32_t gone = mask & exited) {
    fail(name, here,
         "exited lane: lane " + std::to_string(std::countr_zero(gone)) + " is in the mask " +
             describe_mask(mask) + " but has exited");
  }
  auto meeting = std::find_if(meetings.begin(), meetings.end(), [&](const Meeting& m) {
    return m.mask == mask && same_place(m.here, here);
  });
  if (meeting == meetings.end()) {
    meetings.push_back({here, mask, 0, {}});
    meeting = meetings.end() - 1;
  }
  meeting->slots[bit] = slot;
  meeting->arrived |= 1u << bit;
  if (meeting->arrived != mask) {
    Lane& lane = lanes_[static_cast<std::size_t>(self)];
    lane.waits_in = name;
    lane.here = here;
    lane.mask = mask;
    suspend();
    return;
  }
  const std::string error = operation ? operation(meeting->slots, mask) : std::string();
  meetings.erase(meeting);
  if (!error.empty()) fail(name, here, error);
  if (checker_ && !operation) order_accesses(warp, mask);
  for (int i = 0; i < 32; ++i) {
    if (mask >> i & 1 && i != bit) wake(warp * 32 + i);
  }
}

/// Only a barrier orders memory accesses. A shuffle, a vote or a matrix instruction makes lanes
/// meet, but "does not imply a memory barrier" (CUDA C++ Programming Guide, Warp Shuffle
/// Functions).
void BlockRunner::order_accesses(int warp, std::uint32_t mask) {
  std::vector<int> met;
  for (int i = 0; i < 32; ++i) {
    if (mask >> i & 1) met.push_back(warp * 32 + i);
  }
  checker_->meet(met);
}

void BlockRunner::note_exchange(std::uint32_t mask) {
  if (checker_ && mask == ~0u) checker_->clocks().exchange(running_ / 32);
}

void BlockRunner::fail_without_unwinding(const std::string& what) {
  error_ = lane_of_warp(running_) + ": " + what;
  Sitting::note_broken_rule(block_, running_);
  lane().unwindable = false;
  suspend();
  std::abort();
}

void BlockRunner::fail(const char* name, Here here, const std::string& what) {
  error_ = lane_of_warp(running_) + ", " + name + " at " + describe(here) + ": " + what;
  Sitting::note_broken_rule(block_, running_);
  suspend();
  std::abort();  // a failed lane is never resumed, only unwound
}

/// One line per place where lanes wait, and what kind of error that is.
std::string BlockRunner::describe_stuck() const {
  struct Group {
    const Lane* lane;
    std::uint32_t lanes;
    int warp;
  };
  std::vector<Group> groups;
  bool barrier = false, warp_call = false, parked = false;
  for (int i = 0; i < static_cast<int>(lanes_.size()); ++i) {
    const Lane& lane = lanes_[static_cast<std::size_t>(i)];
    if (!lane.waits_in) continue;
    (lane.waits_for ? parked : lane.waits_in == barrier_name ? barrier : warp_call) = true;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.warp == i / 32 && g.lane->waits_in == lane.waits_in && g.lane->mask == lane.mask &&
             g.lane->waits_for == lane.waits_for && same_place(g.lane->here, lane.here);
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {&lane, 0, i / 32});
    group->lanes |= 1u << (i % 32);
  }
  std::string text = parked                 ? "deadlock: what lanes wait for never comes"
                     : warp_call && barrier ? "deadlock: lanes wait for lanes that wait elsewhere"
                     : warp_call ? "mismatched lanes: a warp's lanes wait in different calls or "
                                   "with different masks"
                                 : "lanes of the block wait at different barriers";
  for (const Group& group : groups) {
    text += "\n  warp " + std::to_string(group.warp) + " lanes " + describe_lanes(group.lanes) +
            " wait in " + group.lane->waits_in + " at " + describe(group.lane->here);
    if (group.lane->waits_for) {
      text += " for " + group.lane->waits_for->story();
    } else if (group.lane->waits_in != barrier_name) {
      text += ", mask " + describe_mask(group.lane->mask);
    }
  }
  return text;
}

}  // namespace lanescope::simt

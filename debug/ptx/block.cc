#include "debug/ptx/block.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

#include "debug/ptx/cluster.h"
#include "reference/site.h"

namespace lanescope::ptx {
namespace {

constexpr std::size_t shared_alignment = 1024;
/// Instructions after which another warp has its turn, or another split of the same: fewer where
/// what it waits for may be another block's to do.
constexpr std::int64_t turns_at_once = 1 << 16, turns_with_others = 1 << 10;

template <class F>
void each_lane_of(const Barrier::Arrival& arrival, F&& f) {
  for (int lane = 0; lane < 32; ++lane) {
    if (arrival.mask >> lane & 1) f(arrival.warp * 32 + lane);
  }
}

/// How long this thread has been on a core.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

Block::Block(const Grid& grid, const Program& program, simt::Sitting& sitting, GridOrder& order,
             Cluster& cluster, int rank)
    : grid_(grid),
      program_(program),
      sitting_(sitting),
      order_of_grid_(order),
      cluster_(cluster),
      rank_(rank),
      shared_bytes_((program.shared_bytes + grid.dynamic_shared + 3) / 4 * 4) {
  constexpr std::size_t guard = simt::guard_bytes;
  std::size_t space = shared_bytes_ + shared_alignment + guard;
  memory_ = std::make_unique<std::byte[]>(guard + space);
  void* start = memory_.get() + guard;
  shared_ = static_cast<std::byte*>(std::align(shared_alignment, shared_bytes_, start, space));
  const auto warps = static_cast<int>((grid.thread_count() + 31) / 32);
  if (grid.checker) checker_.emplace(*grid.checker, warps * 32, shared_, shared_bytes_);
  for (int i = 0; i < warps; ++i) warps_.push_back(std::make_unique<Warp>(*this, i));
  if (grid.tally) tally_.resize(program.code.size());
  if (grid.checker && grid.blocks_of_cluster() > 1) cluster_shadow_.emplace(shared_bytes_, true);
}

std::int64_t Block::instructions() const {
  return std::accumulate(
      warps_.begin(), warps_.end(), std::int64_t{0},
      [](std::int64_t sum, const auto& warp) { return sum + warp->instructions(); });
}

void Block::begin(const std::array<std::uint32_t, 3>& coordinates) {
  coordinates_ = coordinates;
  block_ = coordinates[0] + std::int64_t{grid_.blocks[0]} *
                                (coordinates[1] + std::int64_t{grid_.blocks[1]} * coordinates[2]);
  order_.seed(grid_.schedule + static_cast<std::uint64_t>(block_) * 0x9e3779b97f4a7c15u);
  if (checker_) checker_->begin(block_);
  last_grid_ = checker_ && grid_.beside_last ? checker_->add_agent(0) : 0;
  if (cluster_shadow_) cluster_shadow_->begin_launch();
  origins_.begin();
  nans_.clear();
  if (grid_.history) recording_.begin(grid_.history->clock());
  unwritten_sources.assign(1, {});
  unwritten_shared.clear();
  row_tiles_.clear();
  time = 0;
  crossed_ = false;
  left_early_.reset();
  for (Barrier& barrier : barriers_) barrier = {};
  for (auto& arrivals : opened_) arrivals.clear();
  last_arrivals_.assign(warps_.size(), std::nullopt);
  cluster_arrivals_ = cluster_completed_ = {};
  async_.reset();
  acknowledgements_.clear();
  remote_arrivals_.clear();
  known_to_arrive_.clear();
  rounds_in_vain_ = round_ = 0;
  std::fill_n(reinterpret_cast<std::uint32_t*>(shared_), shared_bytes_ / 4, poison32);
  std::int64_t threads = grid_.thread_count();
  for (const auto& warp : warps_) {
    warp->begin(threads >= 32 ? ~0u : (1u << threads) - 1);
    threads -= std::min<std::int64_t>(threads, 32);
  }
  began_ = thread_seconds();
}

void Block::mix(std::vector<Warp*>& ready) {
  constexpr int rounds_behind = 64;
  if (round_++ % rounds_behind == 0)
    left_behind_ = static_cast<int>(order_() % (2 * warps_.size()));
  std::shuffle(ready.begin(), ready.end(), order_);
  const auto is_behind = [&](const Warp* warp) { return warp->index() == left_behind_; };
  if (ready.size() == 1 && (!is_behind(ready[0]) || !async_ || !async_->land_one(order_()))) return;
  std::erase_if(ready, is_behind);
}

bool Block::run_ready() {
  std::vector<Warp*> ready;
  for (const auto& warp : warps_) {
    if (warp->ready()) ready.push_back(warp.get());
  }
  if (ready.empty()) return false;
  sitting_.begin_block(block_);
  // Copies come as late as they can, with a schedule at any time.
  const bool lands = async_ && !async_->idle() && grid_.schedule != 0 && order_() % 4 == 0;
  if (lands) async_->land_one(order_());
  if (grid_.schedule != 0) mix(ready);
  for (Warp* warp : ready) {
    sitting_.run_lane(warp->index() * 32);
    const bool with_others = grid_.is_cooperative() || program_.draws;
    if (warp->ready()) warp->run(with_others ? turns_with_others : turns_at_once);
    if (simt::Sitting::is_asked()) {
      simt::Sitting::tell_places("block " + std::to_string(block_) + ":" + describe_places());
    }
    const double limit = grid_.timeout_seconds;
    if (limit > 0 && thread_seconds() - began_ > limit) {
      char text[64];
      std::snprintf(text, sizeof text,
                    "block %lld did not end in %g s:", static_cast<long long>(block_), limit);
      fail(text + describe_places(), FaultKind::timeout);
    }
  }
  return true;
}

void Block::end() {
  if (alive() > 0) {
    const bool waits_for_others = async_ || cluster_.size() > 1;
    fail((waits_for_others ? "deadlock: what lanes wait for never comes"
                           : "deadlock: lanes wait for lanes that wait elsewhere or have exited") +
         cluster_.describe_places());
  }
  if (checker_ && checker_->overflowed()) {
    fail("lanes meet more often than the memory checker can count");
  }
  if (async_) async_->finish();
  if (grid_.history) {
    grid_.history->keep(block_, std::exchange(recording_, {}), shared_, shared_bytes_);
  }
  if (checker_) checker_->end();
  sitting_.end_block();
}

int Block::alive() const {
  return std::accumulate(warps_.begin(), warps_.end(), 0, [](int sum, const auto& warp) {
    return sum + std::popcount(warp->alive());
  });
}

int Block::exited() const { return static_cast<int>(grid_.thread_count()) - alive(); }

void Block::fail(const std::string& what, FaultKind kind) {
  fault_ = kind;
  if (checker_) checker_->end();
  sitting_.end_block();
  throw simt::Fault(block_, "block " + std::to_string(block_) + ": " + what);
}

std::optional<Vote> Block::arrive(Warp& warp, int id, Barrier::Arrival arrival, int counted,
                                  int expected, int votes) {
  Barrier& barrier = barriers_[static_cast<std::size_t>(id)];
  const auto name = [](int count) { return count == 0 ? "all" : std::to_string(count); };
  if (!barrier.arrivals.empty() && barrier.expected != expected) {
    warp.fail(std::countr_zero(arrival.mask), "barrier " + std::to_string(id) + " waits for " +
                                                  name(barrier.expected) +
                                                  " threads already, not " + name(expected));
  }
  demand_order(warp, id, arrival);
  if (expected != 0) last_arrivals_[static_cast<std::size_t>(warp.index())] = warp.pc();
  barrier.expected = expected;
  if (checker_ && !arrival.waits) {
    each_lane_of(arrival, [&](int thread) { checker_->clocks().give(barrier.carried, thread); });
  }
  barrier.arrived += counted;
  barrier.vote.holds += votes;
  barrier.vote.lanes += std::popcount(arrival.mask);
  barrier.arrivals.push_back(arrival);
  if (barrier.arrived < (expected == 0 ? alive() : expected)) return std::nullopt;
  return open(id);
}

/// Counts that a barrier of all threads opens without some that have exited, or for warps that wait
/// in different instructions.
void Block::tally_opening(int id, const Barrier& barrier) {
  if (tally_.empty() || barrier.expected != 0) return;
  std::uint32_t first = UINT32_MAX, last = 0;
  for (const Barrier::Arrival& arrival : barrier.arrivals) {
    for (const Split& split : warps_[static_cast<std::size_t>(arrival.warp)]->splits()) {
      if (split.barrier != id || (split.mask & arrival.mask) == 0) continue;
      first = std::min(first, split.pc);
      last = std::max(last, split.pc);
    }
  }
  if (first > last) return;
  InstructionTally& tally = tally_[first];
  if (first != last && !std::exchange(crossed_, true)) {
    ++tally.crossed;
    tally.other = std::max(tally.other, last);
  }
  const auto all = static_cast<int>(grid_.thread_count());
  if (barrier.arrived < all && tally.opened_short++ == 0) {
    tally.came = barrier.arrived;
    tally.expected = all;
    tally.block = block_;
  }
}

/// Sends on what waits; the split that arrives last does not, yet.
Vote Block::open(int id) {
  Barrier barrier = std::exchange(barriers_[static_cast<std::size_t>(id)], {});
  tally_opening(id, barrier);
  if (!left_early_) left_early_ = exited();
  ++progress_;
  if (checker_) {
    std::vector<int> met;
    bool all_wait = true;
    for (const Barrier::Arrival& arrival : barrier.arrivals) {
      all_wait = all_wait && arrival.waits;
      if (arrival.waits) each_lane_of(arrival, [&](int thread) { met.push_back(thread); });
    }
    checker_->meet(met);
    if (!all_wait) {
      for (const int thread : met) checker_->clocks().take(barrier.carried, thread);
    }
  }
  for (const Barrier::Arrival& arrival : barrier.arrivals) {
    warps_[static_cast<std::size_t>(arrival.warp)]->release(id, barrier.vote);
  }
  opened_[static_cast<std::size_t>(id)] = std::move(barrier.arrivals);
  return barrier.vote;
}

void Block::note_exit(int at_cluster_barrier) {
  ++progress_;
  cluster_.note_exit(at_cluster_barrier);
  const int left = alive();
  if (left == 0 && async_) async_->finish_sending();
  for (int id = 0; id < static_cast<int>(barriers_.size()); ++id) {
    const Barrier& barrier = barriers_[static_cast<std::size_t>(id)];
    if (!barrier.arrivals.empty() && barrier.expected == 0 && left > 0 && barrier.arrived >= left) {
      open(id);
    }
  }
}

}  // namespace lanescope::ptx

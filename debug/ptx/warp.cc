#include "debug/ptx/warp.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/lanes.h"

namespace lanescope::ptx {

Warp::Warp(Block& block, int index)
    : block_(block),
      program_(block.program()),
      index_(index),
      shared_(block.shared()),
      shared_bytes_(block.shared_bytes()),
      local_stride_((block.program().local_bytes + 15) / 16 * 16),
      local_(32 * local_stride_),
      storage_(block.program().register_bytes + 64) {
  const auto at = reinterpret_cast<std::uintptr_t>(storage_.data());
  registers_ = storage_.data() + (64 - at % 64) % 64;
  std::memcpy(registers_ + program_.constants_at, program_.constants.data(),
              program_.constants.size());
}

void Warp::begin(std::uint32_t lanes) {
  alive_ = lanes;
  splits_.assign(1, {});
  splits_[0].mask = lanes;
  starved_ = false;
  for (auto& queue : copies_) queue.clear();
  groups_committed.fill(0);
  cluster_phase_.fill(0);
  if (block_.grid().numbers) {
    const std::size_t slots = slot_of(static_cast<Place>(program_.register_bytes)) + 1;
    origin_lanes_.assign(slots, 0);
    origins_.resize(slots);
    has_origins_ = false;
  }
  if (block_.checker()) {
    // The registers lie between what nobody reads and the constants.
    doubt_ = {};
    unwritten_.assign(slot_of(static_cast<Place>(program_.register_bytes)) + 1, {});
    std::fill(unwritten_.begin() + slot_of(carry_place) + 1,
              unwritten_.begin() + slot_of(program_.constants_at), Unwritten{~0u, 0});
    begin_products();
  }
}

bool Warp::ready() const {
  return std::any_of(splits_.begin(), splits_.end(),
                     [](const Split& split) { return split.state == Split::State::ready; });
}

/// The split to run: what has met becomes one, then the deepest, then the lowest.
Split* Warp::choose() {
  for (std::size_t i = 0; i < splits_.size(); ++i) {
    for (std::size_t j = splits_.size() - 1; j > i; --j) {
      if (splits_[i].pc != splits_[j].pc || splits_[i].state != Split::State::ready ||
          splits_[j].state != Split::State::ready || splits_[i].returns != splits_[j].returns) {
        continue;
      }
      splits_[i].mask |= splits_[j].mask;
      splits_.erase(splits_.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
  const bool in_turn = std::exchange(starved_, false);
  Split* chosen = nullptr;
  for (Split& split : splits_) {
    if (split.state != Split::State::ready) continue;
    const auto before = [&](const Split& a, const Split& b) {
      if (in_turn) return a.turn < b.turn;
      if (a.returns.size() != b.returns.size()) return a.returns.size() > b.returns.size();
      return a.pc < b.pc;
    };
    if (!chosen || before(split, *chosen)) chosen = &split;
  }
  return chosen;
}

void Warp::run(std::int64_t turns) {
  while (turns > 0 && (current_ = choose())) {
    current_->turn = ++turn_;
    execute(turns);
  }
  if (turns <= 0) starved_ = splits_.size() > 1;
}

void Warp::execute(std::int64_t& turns) {
  const Instruction* code = program_.code.data();
  // Where the split meets another that is ready, both are one from there on.
  std::uint32_t limit = ~0u;
  for (const Split& other : splits_) {
    if (&other != current_ && other.state == Split::State::ready &&
        other.returns.size() == current_->returns.size() && other.pc > current_->pc) {
      limit = std::min(limit, other.pc);
    }
  }
  std::uint32_t pc = current_->pc, active = current_->mask;
  std::int64_t left = turns;
  bool follows = follows_numbers();
  const auto leave = [&] {
    instructions_ += turns - left;
    turns = left;
  };
  while (left > 0) {
    if (pc >= limit) {
      current_->pc = pc;
      return leave();
    }
    const Instruction& in = code[pc];
    --left;
    std::uint32_t mask = active;
    if (in.guard != no_place) {
      const std::uint32_t guard = predicate(in.guard);
      mask &= in.guard_negated ? ~guard : guard;
    }
    if (!unwritten_.empty()) {
      current_->pc = pc;
      follow_unwritten(in, active, mask);
    }
    if (in.lanes) {
      if (mask != 0 && follows && (in.number_count != 0 || has_origins_)) {
        current_->pc = pc;
        do_and_follow(in, mask);
        follows = follows_numbers();
      } else if (mask != 0) {
        in.lanes(registers_, in, mask);
      }
      ++pc;
      continue;
    }
    current_->pc = pc;
    if (in.meets) {
      if (mask == 0) {
        ++pc;
        continue;
      }
      if (mask != active) divide_off(active & ~mask, pc + 1);
      absorb_waiting();
      mask = current_->mask;
    }
    const Flow flow = in.act(*this, in, mask);
    if (follows && flow == Flow::next && in.exchanges) {
      follow_exchange(in, in.meets ? current_->mask : mask, in.multiplies);
      follows = follows_numbers();
    }
    if (flow == Flow::next && !in.meets) {
      ++pc;
      continue;
    }
    if (flow == Flow::next) ++current_->pc;
    if (flow == Flow::waits) current_->state = Split::State::waits;
    if (flow == Flow::arrived) current_->state = Split::State::at_barrier;
    if (flow == Flow::polls) current_->state = Split::State::polls;
    if (flow == Flow::waits || flow == Flow::arrived || flow == Flow::gone || flow == Flow::polls ||
        splits_.size() != 1) {
      return leave();
    }
    pc = current_->pc;
    active = current_->mask;
  }
  current_->pc = pc;
  leave();
}

/// Lanes of the split that go their own way from `pc` on.
void Warp::divide_off(std::uint32_t mask, std::uint32_t pc) {
  Split other = *current_;
  other.mask = mask;
  other.pc = pc;
  current_->mask &= ~mask;
  const auto at = current_ - splits_.data();
  splits_.push_back(std::move(other));
  current_ = &splits_[static_cast<std::size_t>(at)];
}

/// Those that wait at this place go on with the split that has come.
void Warp::absorb_waiting() {
  const std::uint32_t pc = current_->pc;
  for (std::size_t i = splits_.size(); i-- > 0;) {
    Split& other = splits_[i];
    if (&other == current_ || other.pc != pc || other.state != Split::State::waits ||
        other.returns != current_->returns) {
      continue;
    }
    current_->mask |= other.mask;
    const auto at = current_ - splits_.data();
    splits_.erase(splits_.begin() + static_cast<std::ptrdiff_t>(i));
    current_ = &splits_[static_cast<std::size_t>(at) - (static_cast<std::size_t>(at) > i ? 1 : 0)];
  }
}

Flow Warp::branch(std::uint32_t mask, std::uint32_t target) {
  if (mask == 0) return Flow::next;
  if (mask != current_->mask) divide_off(current_->mask & ~mask, current_->pc + 1);
  current_->pc = target;
  return Flow::moved;
}

Flow Warp::branch_some(std::uint32_t some, std::uint32_t others, std::uint32_t target) {
  if (others != 0) divide_off(others, current_->pc);
  return branch(some, target);
}

Flow Warp::call(const Call& call, std::uint32_t mask, std::uint32_t index) {
  if (mask == 0) return Flow::next;
  if (mask != current_->mask) divide_off(current_->mask & ~mask, current_->pc + 1);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    for (const Passing& passing : call.arguments) {
      std::memcpy(local_memory(lane) + passing.to, local_memory(lane) + passing.from,
                  passing.bytes);
    }
  }
  current_->returns.push_back(current_->pc + 1);
  current_->calls.push_back(index);
  current_->pc = call.entry;
  return Flow::moved;
}

Flow Warp::return_from_call(std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  if (current_->returns.empty()) return exit(mask);
  if (mask != current_->mask) divide_off(current_->mask & ~mask, current_->pc + 1);
  const Call& call = program_.calls[current_->calls.back()];
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    for (const Passing& passing : call.results) {
      std::memcpy(local_memory(lane) + passing.to, local_memory(lane) + passing.from,
                  passing.bytes);
    }
  }
  current_->pc = current_->returns.back();
  current_->returns.pop_back();
  current_->calls.pop_back();
  return Flow::moved;
}

Flow Warp::exit(std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  int at_cluster_barrier = 0;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const bool came = cluster_phase_[lane] > block_.cluster().barrier().phase;
    at_cluster_barrier += (mask >> lane & 1) != 0 && came ? 1 : 0;
  }
  alive_ &= ~mask;
  current_->mask &= ~mask;
  ++current_->pc;
  if (current_->mask == 0) {
    splits_.erase(splits_.begin() + (current_ - splits_.data()));
    current_ = splits_.data();
  }
  // What waits for the lanes that are gone need not any more.
  for (Split& split : splits_) {
    if (split.state == Split::State::waits) split.state = Split::State::ready;
  }
  block_.note_exit(at_cluster_barrier);
  // choose() goes on: the current split may be gone.
  return Flow::gone;
}

Flow Warp::converge(const std::array<std::uint32_t, 32>& members) {
  const std::uint32_t here = current_->mask;
  std::uint32_t complete = 0;
  for (std::uint32_t left = here; left != 0;) {
    const int first = std::countr_zero(left);
    const std::uint32_t wanted = members[static_cast<std::size_t>(first)];
    std::uint32_t same = 0;
    for (int lane = first; lane < 32; ++lane) {
      if (left >> lane & 1 && members[static_cast<std::size_t>(lane)] == wanted) same |= 1u << lane;
    }
    left &= ~same;
    if (const std::uint32_t strangers = same & ~wanted) {
      fail(std::countr_zero(strangers), "the lane is not in its own mask");
    }
    if ((wanted & alive_ & ~same) == 0) complete |= same;
  }
  if (complete == here) return Flow::next;
  if (complete == 0) return Flow::waits;
  const std::uint32_t pc = current_->pc;
  divide_off(here & ~complete, pc);
  splits_.back().state = Split::State::waits;
  return Flow::next;
}

Flow Warp::converge_all() { return current_->mask == alive_ ? Flow::next : Flow::waits; }

void Warp::release_waiting(std::uint32_t mask) {
  for (Split& split : splits_) {
    if (split.state != Split::State::waits || (split.mask & mask) == 0) continue;
    split.state = Split::State::ready;
    ++split.pc;
  }
}

void Warp::release(int barrier, const Vote& vote) {
  for (Split& split : splits_) {
    if (split.state != Split::State::at_barrier || split.barrier != barrier) continue;
    write_vote(program_.code[split.pc], split.mask, vote);
    split.state = Split::State::ready;
    ++split.pc;
  }
}

}  // namespace lanescope::ptx

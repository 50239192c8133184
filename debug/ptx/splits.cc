// How the lanes of a warp part and meet: branches, calls, exits, and instructions that several come
// to together.

#include <bit>
#include <cstring>
#include <utility>

#include "debug/ptx/block.h"
#include "debug/ptx/cluster.h"
#include "debug/ptx/warp.h"

namespace lanescope::ptx {

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

/// Copies arguments, or results, within the local memory of each lane of `mask`.
void Warp::pass(const std::vector<Passing>& passings, std::uint32_t mask) {
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    std::byte* local = local_memory(lane);
    for (const Passing& passing : passings) {
      std::byte *to = local + passing.to, *from = local + passing.from;
      if (recording_) recording_->note_copy({lane, to, from, passing.bytes});
      std::memcpy(to, from, passing.bytes);
    }
  }
}

/// visit(bytes of the lane, how many) of all that a frame has, a predicate as a byte.
template <class Visit>
void Warp::each_part(const LaneFrame& frame, int lane, Visit&& visit) {
  for (const LaneFrame::Registers& its : frame.registers) {
    for (std::uint32_t i = 0; i < its.count; ++i) {
      const Place place = its.first + i * (its.bytes == 0 ? slot_bytes : 32 * its.bytes);
      if (its.bytes != 0) {
        visit(registers_ + place + static_cast<std::size_t>(lane) * its.bytes, its.bytes);
        continue;
      }
      std::uint32_t& all = predicate(place);
      auto bit = static_cast<std::byte>(all >> lane & 1);
      visit(&bit, 1);
      all = (all & ~(1u << lane)) | static_cast<std::uint32_t>(bit) << lane;
    }
  }
  visit(local_memory(lane) + frame.local, frame.local_bytes);
}

void Warp::save_frame(const LaneFrame& frame, std::uint32_t mask) {
  constexpr std::size_t most_stack = 64 << 10;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    std::vector<std::byte>& stack = stacks_[static_cast<std::size_t>(lane)];
    if (frame.bytes > most_stack || stack.size() > most_stack - frame.bytes) {
      fail(lane, "a function calls itself too often: a lane's stack passes 64 KiB");
    }
    each_part(frame, lane, [&](const std::byte* from, std::size_t bytes) {
      stack.insert(stack.end(), from, from + bytes);
    });
  }
}

void Warp::restore_frame(const LaneFrame& frame, int lane) {
  std::vector<std::byte>& stack = stacks_[static_cast<std::size_t>(lane)];
  const std::byte* saved = stack.data() + (stack.size() - frame.bytes);
  each_part(frame, lane, [&](std::byte* to, std::size_t bytes) {
    std::memcpy(to, saved, bytes);
    saved += bytes;
  });
  stack.resize(stack.size() - frame.bytes);
  if (!follows_unwritten()) return;
  for (const LaneFrame::Registers& its : frame.registers) {
    for (std::uint32_t i = 0; i < its.count; ++i) {
      const Place place = its.first + i * (its.bytes == 0 ? slot_bytes : 32 * its.bytes);
      set_unwritten(place, 1u << lane, {});
    }
  }
}

Flow Warp::call(const Call& call, std::uint32_t mask, std::uint32_t index) {
  if (mask == 0) return Flow::next;
  if (mask != current_->mask) divide_off(current_->mask & ~mask, current_->pc + 1);
  if (call.frame >= 0) save_frame(program_.frames[static_cast<std::size_t>(call.frame)], mask);
  pass(call.arguments, mask);
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
  if (call.frame >= 0) {
    // The results lie in what is restored, and so may what takes them.
    const auto& frame = program_.frames[static_cast<std::size_t>(call.frame)];
    for (int lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1)) continue;
      std::vector<std::vector<std::byte>> results;
      for (const Passing& passing : call.results) {
        const std::byte* from = local_memory(lane) + passing.from;
        results.emplace_back(from, from + passing.bytes);
      }
      restore_frame(frame, lane);
      for (std::size_t i = 0; i < results.size(); ++i) {
        std::memcpy(local_memory(lane) + call.results[i].to, results[i].data(), results[i].size());
      }
    }
  } else {
    pass(call.results, mask);
  }
  current_->pc = current_->returns.back();
  current_->returns.pop_back();
  current_->calls.pop_back();
  return Flow::moved;
}

Flow Warp::exit(std::uint32_t mask) {
  if (mask == 0) return Flow::next;
  if (block_.alive() == std::popcount(mask)) check_end(std::countr_zero(mask));
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

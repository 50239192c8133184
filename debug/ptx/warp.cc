#include "debug/ptx/warp.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "debug/ptx/block.h"
#include "debug/ptx/lanes.h"

namespace lanescope::ptx {

Warp::Warp(Block& block, int index)
    : block_(block),
      program_(block.program()),
      index_(index),
      recording_(block.recording()),
      shared_(block.shared()),
      shared_bytes_(block.shared_bytes()),
      local_stride_((block.program().local_bytes + 15) / 16 * 16),
      local_(32 * local_stride_),
      storage_(block.program().register_bytes + 64) {
  const auto at = reinterpret_cast<std::uintptr_t>(storage_.data());
  registers_ = storage_.data() + (64 - at % 64) % 64;
  std::memcpy(registers_ + program_.constants_at, program_.constants.data(),
              program_.constants.size());
  const std::uint64_t above = block_.shared_base() - shared_begin;
  for (const auto& [place, bits] : program_.shared_addresses) {
    for (int lane = 0; above != 0 && lane < 32; ++lane) {
      if (bits == 64) {
        this->lanes<std::uint64_t>(place)[lane] += above;
      } else {
        this->lanes<std::uint32_t>(place)[lane] += static_cast<std::uint32_t>(above);
      }
    }
  }
}

void Warp::begin(std::uint32_t lanes) {
  alive_ = lanes;
  splits_.assign(1, {});
  splits_[0].mask = lanes;
  for (std::vector<std::byte>& stack : stacks_) stack.clear();
  starved_ = false;
  copies_.clear();
  groups_committed.fill(0);
  fenced_lanes = 0;
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
    const std::size_t slots = slot_of(static_cast<Place>(program_.register_bytes)) + 1;
    unwritten_lanes_.assign(slots, 0);
    unwritten_local_.clear();
    unwritten_sources_.assign(slots, 0);
    written_halves_.assign(slots, {});
    std::fill(unwritten_lanes_.begin() + slot_of(carry_place) + 1,
              unwritten_lanes_.begin() + slot_of(program_.constants_at), ~0u);
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
  const bool watched = is_watched();
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
    if (!in.act) {
      if (watched) {
        current_->pc = pc;
        do_watched(in, active, mask);
      } else if (mask != 0) {
        in.lanes(registers_, in, mask);
      }
      ++pc;
      continue;
    }
    current_->pc = pc;
    if (watched) watch_operands(in, active, mask);
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
    if (watched) watch_results(in, in.meets ? current_->mask : mask, flow);
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

bool Warp::is_watched() const {
  return follows_unwritten() || follows_numbers() || recording_ != nullptr;
}

void Warp::watch_operands(const Instruction& in, std::uint32_t active, std::uint32_t mask) {
  if (!follows_unwritten()) return;
  if (concerns_unwritten(in)) follow_unwritten(in, active, mask);
  if (!product_registers_.empty()) follow_products(in, mask);
}

void Warp::watch_results(const Instruction& in, std::uint32_t mask, Flow flow) {
  const auto instruction = static_cast<std::uint32_t>(&in - program_.code.data());
  if (flow == Flow::next && in.exchanges && follows_numbers()) {
    follow_exchange(in, mask, in.multiplies);
  }
  if (!recording_) return;
  const bool done = (flow == Flow::next && mask != 0) || (flow == Flow::moved && !in.branches);
  done ? recording_->add(program_, registers_, index_, instruction, mask) : recording_->drop();
}

void Warp::do_watched(const Instruction& in, std::uint32_t active, std::uint32_t mask) {
  watch_operands(in, active, mask);
  if (mask == 0) return;
  if (recording_ && in.selects) recording_->note_chosen(predicate(in.s[2]));
  do_lanes(in, mask);
  if (recording_) recording_->add(program_, registers_, index_, pc(), mask);
}

void Warp::do_lanes(const Instruction& in, std::uint32_t mask) {
  if (follows_numbers() && (in.number_count != 0 || has_origins_)) {
    do_and_follow(in, mask);
  } else {
    in.lanes(registers_, in, mask);
  }
}

}  // namespace lanescope::ptx

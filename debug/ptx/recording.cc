#include "debug/ptx/recording.h"

#include <algorithm>
#include <cstring>

namespace lanescope::ptx {
namespace {

/// Moves what a step noted behind all that others did. Returns where it begins.
template <class T>
std::uint32_t take(std::vector<T>& all, std::vector<T>& of_step, std::uint32_t& count) {
  count = static_cast<std::uint32_t>(of_step.size());
  if (count == 0) return Recording::none;
  const auto begin = static_cast<std::uint32_t>(all.size());
  all.insert(all.end(), of_step.begin(), of_step.end());
  of_step.clear();
  return begin;
}

}  // namespace

void Recording::begin(std::atomic<std::uint64_t>& clock) {
  clock_ = &clock;
  drop();
  steps_.clear();
  pointers_.clear();
  lanes_.clear();
  copies_.clear();
  elements_.clear();
  marks_.clear();
  products_.clear();
  open_products_.clear();
  groups_.clear();
  results_.clear();
  whole_ = true;
}

void Recording::drop() {
  pointers_of_step_.reset();
  lanes_of_step_.reset();
  product_of_step_.reset();
  copies_of_step_.clear();
  elements_of_step_.clear();
  marks_of_step_.clear();
  chosen_ = 0;
}

void Recording::add(const Program& program, const std::byte* registers, int warp,
                    std::uint32_t instruction, std::uint32_t mask) {
  const Instruction& in = program.code[instruction];
  whole_ = whole_ && results_.size() + std::size_t{32} * in.result_count <= most_results;
  if (!whole_) return drop();
  Step step;
  step.when = (*clock_)++;
  step.instruction = instruction;
  step.mask = mask;
  step.warp = static_cast<std::uint16_t>(warp);
  step.chosen = chosen_;
  if (pointers_of_step_) {
    step.pointers = static_cast<std::uint32_t>(pointers_.size());
    pointers_.push_back(*pointers_of_step_);
  }
  if (lanes_of_step_) {
    step.lanes = static_cast<std::uint32_t>(lanes_.size());
    lanes_.push_back(*lanes_of_step_);
  }
  if (product_of_step_) {
    step.product = static_cast<std::uint32_t>(products_.size());
    products_.push_back(*product_of_step_);
    open_products_.push_back({warp, groups_[warp], steps_.size()});
  }
  step.copies = take(copies_, copies_of_step_, step.copy_count);
  step.elements = take(elements_, elements_of_step_, step.element_count);
  step.marks = take(marks_, marks_of_step_, step.mark_count);
  step.results = static_cast<std::uint32_t>(results_.size());
  results_.resize(results_.size() + std::size_t{32} * in.result_count);
  copy_results(program, registers, step);
  steps_.push_back(step);
  drop();
}

/// What is wider than a word is not shown.
void Recording::copy_results(const Program& program, const std::byte* registers, const Step& step) {
  const Instruction& in = program.code[step.instruction];
  const Place* results = program.operands.data() + in.operands;
  for (int i = 0; i < in.result_count; ++i) {
    constexpr std::size_t bytes = 32 * sizeof(std::uint32_t);
    const std::size_t left = program.register_bytes - results[i];
    std::memcpy(&results_[step.results + static_cast<std::size_t>(32 * i)], registers + results[i],
                std::min(bytes, left));
  }
}

void Recording::finish_products(const Program& program, const std::byte* registers, int warp,
                                int pending) {
  std::erase_if(open_products_, [&](const OpenProduct& open) {
    const bool done = open.warp == warp && open.group < groups_[warp] - pending;
    if (done) copy_results(program, registers, steps_[open.step]);
    return done;
  });
}

void Recording::add_landed(std::uint32_t instruction, int warp, const Copy& copy) {
  if (!whole_) return;
  const bool goes_on = !steps_.empty() && steps_.back().landed &&
                       steps_.back().instruction == instruction && steps_.back().warp == warp;
  if (!goes_on) {
    Step& step = steps_.emplace_back();
    step.when = (*clock_)++;
    step.instruction = instruction;
    step.warp = static_cast<std::uint16_t>(warp);
    step.landed = true;
    step.copies = static_cast<std::uint32_t>(copies_.size());
    step.results = static_cast<std::uint32_t>(results_.size());
  }
  steps_.back().mask |= 1u << copy.lane;
  ++steps_.back().copy_count;
  copies_.push_back(copy);
}

}  // namespace lanescope::ptx

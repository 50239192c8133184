#include "debug/ptx/slice.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "debug/ptx/exec_session.h"
#include "debug/ptx/slicer.h"
#include "debug/simt/rounding.h"
#include "debug/text/text.h"

namespace lanescope::ptx {
namespace {

/// A lane's value, as the instruction's type says.
std::string value_text(const Program& program, const Recording& recording,
                       const Recording::Step& step, int result, int lane) {
  const Instruction& in = program.code[step.instruction];
  const std::string_view opcode = program.origins[step.instruction].opcode;
  const std::uint32_t word = recording.result(step, result, lane);
  const Type type = in.lanes ? in.makes : in.multiplies ? Type::f32 : in.type;
  if (opcode.starts_with("mov") || opcode.starts_with("selp")) return {};
  if (program.code[step.instruction].issues_product) return {};  // it is not there yet
  const auto half = [&](const simt::Format& format, std::uint32_t bits) {
    return number_text(simt::value_of(format, bits & 0xffff), 4);
  };
  // Of 16 bits two lanes lie in a word.
  const std::uint32_t own =
      recording.result(step, result, lane / 2) >> (lane % 2 != 0 ? 16 : 0) & 0xffff;
  switch (type) {
    case Type::f32:
      return number_text(std::bit_cast<float>(word), 6);
    case Type::f16:
      return half(simt::f16_format, own);
    case Type::bf16:
      return half(simt::bf16_format, own);
    case Type::f16x2:
      return half(simt::f16_format, word) + ", " + half(simt::f16_format, word >> 16);
    case Type::bf16x2:
      return half(simt::bf16_format, word) + ", " + half(simt::bf16_format, word >> 16);
    default:
      return {};
  }
}

}  // namespace

Slicer::Slicer(const History& history, const GlobalMemory& memory)
    : history_(history), memory_(memory) {
  for (const History::Run& run : history.runs()) {
    walks_.push_back({&run, run.recording.steps().size(), {}, {}, {}});
  }
}

Slice Slicer::follow_back(const History::Run& run, const std::byte* begin, std::size_t bytes) {
  want(begin, bytes);
  const auto first = std::find_if(walks_.begin(), walks_.end(),
                                  [&](const Walk& walk) { return walk.run == &run; });
  while (first->left > 0 && first->lines.empty()) step_back(*first);
  if (first->lines.empty()) return {};
  slice_.block = run.block;
  const std::uint64_t last = run.recording.steps()[first->left].when;
  std::vector<std::size_t> order;  // of the blocks that are gone over, the last step on top
  const auto earlier = [&](std::size_t a, std::size_t b) {
    return walks_[a].when() < walks_[b].when();
  };
  for (std::size_t i = 0; i < walks_.size(); ++i) {
    Walk& walk = walks_[i];
    while (walk.left > 0 && walk.when() > last) --walk.left;
    if (walk.left > 0) {
      order.push_back(i);
    } else {
      end(walk);
    }
  }
  std::make_heap(order.begin(), order.end(), earlier);
  std::vector<std::size_t> stored;  // blocks, the last that stored first
  auto host = history_.host_writes().rbegin();
  const auto host_end = history_.host_writes().rend();
  while (host != host_end && host->when > last) ++host;
  while (!order.empty()) {
    std::pop_heap(order.begin(), order.end(), earlier);
    const std::size_t at = order.back();
    Walk& walk = walks_[at];
    for (; host != host_end && host->when > walk.when(); ++host) go_over(*host);
    const bool was_empty = walk.lines.empty();
    step_back(walk);
    if (was_empty && !walk.lines.empty()) stored.push_back(at);
    if (walk.left > 0) {
      std::push_heap(order.begin(), order.end(), earlier);
    } else {
      end(walk);
      order.pop_back();
    }
  }
  slice_.lines = std::move(first->lines);
  for (const std::size_t at : stored) {
    Walk& walk = walks_[at];
    slice_.earlier.push_back({walk.run->launch, walk.run->block,
                              readable_name(walk.run->program->kernel_name),
                              std::move(walk.lines)});
  }
  std::reverse(slice_.marks.begin(), slice_.marks.end());
  add_sources();
  return std::move(slice_);
}

void Slicer::step_back(Walk& walk) {
  program_ = walk.run->program.get();
  recording_ = &walk.run->recording;
  step_ = &recording_->steps()[--walk.left];
  in_ = &program_->code[step_->instruction];
  registers_ = &registers_of(walk, step_->warp);
  hits_ = 0;
  last_result_ = -1;
  note_marks();
  follow();
  if (hits_ != 0) add_line(walk);
}

/// Nobody wrote what is still wanted of the block's shared memory: the next block's is in its
/// place.
void Slicer::end(const Walk& walk) {
  if (walk.lines.empty()) return;
  std::erase_if(bytes_, [&](Address at) {
    const bool own = at - reinterpret_cast<Address>(walk.run->shared) < walk.run->shared_bytes;
    if (own) settled_.insert(at);
    return own;
  });
}

void Slicer::go_over(const History::HostWrite& write) {
  const auto to = reinterpret_cast<Address>(write.to);
  const bool copies = write.from && memory_.find(reinterpret_cast<Address>(write.from), 1);
  std::vector<Address> written;
  for (const Address at : bytes_) {
    if (at - to < write.bytes) written.push_back(at);
  }
  for (const Address at : written) {
    bytes_.erase(at);
    if (copies) {
      want(write.from + (at - to), 1);
    } else {
      settled_.insert(at);
    }
  }
}

std::vector<std::uint32_t>& Slicer::registers_of(Walk& walk, std::size_t warp) const {
  if (walk.wanted.size() <= warp) walk.wanted.resize(warp + 1);
  if (walk.wanted[warp].empty()) {
    walk.wanted[warp].resize(slot_of(static_cast<Place>(program_->register_bytes)) + 1);
  }
  return walk.wanted[warp];
}

void Slicer::want(const std::byte* at, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) bytes_.insert(reinterpret_cast<Address>(at) + i);
}

/// Whether some of these bytes are wanted; from now on they are not.
bool Slicer::take(const std::byte* at, std::size_t bytes) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < bytes; ++i) found += bytes_.erase(reinterpret_cast<Address>(at) + i);
  return found != 0;
}

void Slicer::want(Place place, std::uint32_t lanes) {
  if (place < program_->constants_at) (*registers_)[slot_of(place)] |= lanes;
}

std::uint32_t Slicer::take(Place place, std::uint32_t lanes) {
  std::uint32_t& wanted = (*registers_)[slot_of(place)];
  const std::uint32_t taken = wanted & lanes;
  wanted &= ~lanes;
  return taken;
}

/// The lanes of any result that are wanted, and the last of those results.
std::uint32_t Slicer::take_results(std::uint32_t lanes) {
  std::uint32_t taken = 0;
  for (int i = 0; i < in_->result_count; ++i) {
    const std::uint32_t some = take(results()[i], lanes);
    if (some != 0) last_result_ = i;
    taken |= some;
  }
  return taken;
}

void Slicer::note_marks() {
  if (step_->mark_count == 0) return;
  const std::uint32_t wanted = (*registers_)[slot_of(in_->s[3])];
  const Recording::Mark* marks = recording_->marks(*step_);
  for (std::uint32_t i = step_->mark_count; i-- > 0;) {
    if (wanted >> marks[i].thread % 32 & 1) slice_.marks.push_back(marks[i]);
  }
}

void Slicer::add_line(Walk& walk) {
  const std::string& line = line_of(step_->instruction);
  const auto [at, is_new] = walk.line_index.try_emplace(line, walk.lines.size());
  if (is_new) walk.lines.push_back({line, {}, {}, {}});
  SliceLine& entry = walk.lines[at->second];
  const std::string& opcode = program_->origins[step_->instruction].opcode;
  const auto known = std::find_if(entry.instructions.begin(), entry.instructions.end(),
                                  [&](const auto& count) { return count.opcode == opcode; });
  if (known == entry.instructions.end()) {
    entry.instructions.push_back({opcode, 1});
  } else {
    ++known->times;
  }
  const auto warp = std::find_if(entry.lanes.begin(), entry.lanes.end(),
                                 [&](const auto& lanes) { return lanes.warp == step_->warp; });
  if (warp == entry.lanes.end()) {
    entry.lanes.push_back({step_->warp, hits_});
  } else {
    warp->lanes |= hits_;
  }
  if (entry.value.empty() && last_result_ >= 0) {
    entry.value = value_text(*program_, *recording_, *step_, last_result_, std::countr_zero(hits_));
  }
}

const std::string& Slicer::line_of(std::uint32_t instruction) {
  const auto [at, is_new] = lines_.try_emplace({program_, instruction});
  if (is_new) at->second = program_->line_of(instruction);
  return at->second;
}

/// What is still wanted where the block began.
void Slicer::add_sources() {
  std::map<std::string, Slice::Source> sources;
  settled_.insert(bytes_.begin(), bytes_.end());
  for (const Address address : settled_) {
    const GlobalMemory::Area* area = memory_.find(address, 1);
    const std::string name = area ? area->name : "the kernel's parameters or shared memory";
    const std::uint64_t offset = area ? address - area->begin : 0;
    const auto [at, is_new] =
        sources.try_emplace(name, Slice::Source{name, 0, offset, offset, nullptr});
    Slice::Source& source = at->second;
    ++source.bytes;
    source.first = std::min(source.first, offset);
    source.last = std::max(source.last, offset);
    if (area) source.host = area->host;
  }
  for (const auto& [name, source] : sources) slice_.sources.push_back(source);
}

Slice slice_of(const History& history, const std::byte* begin, std::size_t bytes,
               const GlobalMemory& memory) {
  std::vector<const History::Run*> runs;
  bool whole = true;
  for (const History::Run& run : history.runs()) {
    whole = whole && run.recording.whole();
    if (run.launch == history.launch()) runs.push_back(&run);
  }
  std::sort(runs.begin(), runs.end(),
            [](const auto* a, const auto* b) { return a->block < b->block; });
  for (const History::Run* run : runs) {
    Slice slice = Slicer(history, memory).follow_back(*run, begin, bytes);
    if (slice.lines.empty()) continue;
    if (!whole) slice.not_followed.push_back("a block did more than can be recorded");
    if (history.forgotten() > 0) {
      slice.not_followed.push_back("what the first " + std::to_string(history.forgotten()) +
                                   " blocks did is more than can be recorded");
    }
    return slice;
  }
  return {};
}

}  // namespace lanescope::ptx

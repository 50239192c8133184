#include "debug/ptx/slice.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

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

Slice Slicer::run(const std::byte* begin, std::size_t bytes, const GlobalMemory& memory) {
  want(begin, bytes);
  const auto& steps = recording_.steps();
  for (std::size_t i = steps.size(); i-- > 0;) {
    step_ = &steps[i];
    in_ = &program_.code[step_->instruction];
    registers_ = &registers_of(step_->warp);
    hits_ = 0;
    last_result_ = -1;
    note_marks();
    follow();
    if (hits_ != 0) add_line();
  }
  std::reverse(slice_.marks.begin(), slice_.marks.end());
  if (!slice_.lines.empty()) add_sources(memory);
  return std::move(slice_);
}

std::vector<std::uint32_t>& Slicer::registers_of(std::size_t warp) {
  if (wanted_.size() <= warp) wanted_.resize(warp + 1);
  if (wanted_[warp].empty()) {
    wanted_[warp].resize(slot_of(static_cast<Place>(program_.register_bytes)) + 1);
  }
  return wanted_[warp];
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
  if (place < program_.constants_at) (*registers_)[slot_of(place)] |= lanes;
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
  const Recording::Mark* marks = recording_.marks(*step_);
  for (std::uint32_t i = step_->mark_count; i-- > 0;) {
    if (wanted >> marks[i].thread % 32 & 1) slice_.marks.push_back(marks[i]);
  }
}

void Slicer::add_line() {
  const std::string& line = line_of(step_->instruction);
  const auto [at, is_new] = line_index_.try_emplace(line, slice_.lines.size());
  if (is_new) slice_.lines.push_back({line, {}, {}, {}});
  SliceLine& entry = slice_.lines[at->second];
  const std::string& opcode = program_.origins[step_->instruction].opcode;
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
    entry.value = value_text(program_, recording_, *step_, last_result_, std::countr_zero(hits_));
  }
}

const std::string& Slicer::line_of(std::uint32_t instruction) {
  const auto [at, is_new] = lines_.try_emplace(instruction);
  if (is_new) at->second = program_.line_of(instruction);
  return at->second;
}

/// What is still wanted where the block began.
void Slicer::add_sources(const GlobalMemory& memory) {
  std::map<std::string, Slice::Source> sources;
  for (const Address address : bytes_) {
    const GlobalMemory::Area* area = memory.find(address, 1);
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

Slice slice_of(const Program& program, const Recording& recording, const std::byte* begin,
               std::size_t bytes, std::int64_t block, const GlobalMemory& memory) {
  Slice slice = Slicer(program, recording).run(begin, bytes, memory);
  slice.block = block;
  if (!recording.whole()) slice.not_followed.push_back("the block did more than can be recorded");
  return slice;
}

}  // namespace lanescope::ptx

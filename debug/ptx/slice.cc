#include "debug/ptx/slice.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "debug/simt/rounding.h"
#include "debug/text/text.h"

namespace lanescope::ptx {
namespace {

/// How the results of an instruction hang together with its sources.
enum class Way : std::uint8_t {
  lane,         ///< lane by lane
  load,         ///< from memory
  store,        ///< to memory
  update,       ///< both
  load_matrix,  ///< ldmatrix
  load_transposed,
  store_matrix,
  store_transposed,
  product,     ///< mma of m16n8
  warp,        ///< of whatever lanes
  warpgroup,   ///< likewise, and of shared memory
  copy_async,  ///< cp.async; what calls pass
};

Way way_of(const Program& program, std::uint32_t instruction) {
  const std::string_view opcode = program.origins[instruction].opcode;
  const std::string_view base = opcode.substr(0, opcode.find('.'));
  const bool transposed = opcode.find(".trans") != opcode.npos;
  if (program.code[instruction].lanes) return Way::lane;
  if (base == "ld" || base == "ldu") return Way::load;
  if (base == "st" && opcode.find(".async") == opcode.npos) return Way::store;
  if (base == "atom" || base == "red") return Way::update;
  if (base == "ldmatrix") return transposed ? Way::load_transposed : Way::load_matrix;
  if (base == "stmatrix") return transposed ? Way::store_transposed : Way::store_matrix;
  if (base == "mma") return Way::product;
  if (base == "wgmma") return Way::warpgroup;
  if (base == "mov") return Way::lane;
  return Way::warp;
}

/// A lane's value, as the instruction's type says.
std::string value_text(const Program& program, const Recording& recording,
                       const Recording::Step& step, int result, int lane) {
  const Instruction& in = program.code[step.instruction];
  const std::string_view opcode = program.origins[step.instruction].opcode;
  const std::uint32_t word = recording.result(step, result, lane);
  const Type type = in.lanes ? in.makes : in.multiplies ? Type::f32 : in.type;
  if (opcode.starts_with("mov") || opcode.starts_with("selp")) return {};
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

class Slicer {
 public:
  Slicer(const Program& program, const Recording& recording)
      : program_(program), recording_(recording) {}

  Slice run(const std::byte* begin, std::size_t bytes, const GlobalMemory& memory) {
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

 private:
  using Address = std::uintptr_t;
  const Place* results() const { return program_.operands.data() + in_->operands; }
  const Place* sources() const { return results() + in_->result_count; }

  std::vector<std::uint32_t>& registers_of(std::size_t warp) {
    if (wanted_.size() <= warp) wanted_.resize(warp + 1);
    if (wanted_[warp].empty()) {
      wanted_[warp].resize(slot_of(static_cast<Place>(program_.register_bytes)) + 1);
    }
    return wanted_[warp];
  }
  void want(const std::byte* at, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) bytes_.insert(reinterpret_cast<Address>(at) + i);
  }
  /// Whether some of these bytes are wanted; from now on they are not.
  bool take(const std::byte* at, std::size_t bytes) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      found += bytes_.erase(reinterpret_cast<Address>(at) + i);
    return found != 0;
  }
  void want(Place place, std::uint32_t lanes) {
    if (place < program_.constants_at) (*registers_)[slot_of(place)] |= lanes;
  }
  std::uint32_t take(Place place, std::uint32_t lanes) {
    std::uint32_t& wanted = (*registers_)[slot_of(place)];
    const std::uint32_t taken = wanted & lanes;
    wanted &= ~lanes;
    return taken;
  }
  /// The lanes of any result that are wanted, and the last of those results.
  std::uint32_t take_results(std::uint32_t lanes) {
    std::uint32_t taken = 0;
    for (int i = 0; i < in_->result_count; ++i) {
      const std::uint32_t some = take(results()[i], lanes);
      if (some != 0) last_result_ = i;
      taken |= some;
    }
    return taken;
  }

  void follow() {
    if (step_->copy_count > 0) return follow_copies();
    if (step_->element_count > 0) return follow_elements();
    const auto [at, is_new] = ways_.try_emplace(step_->instruction);
    if (is_new) at->second = way_of(program_, step_->instruction);
    switch (at->second) {
      case Way::lane:
        return follow_lanes();
      case Way::load:
      case Way::update:
      case Way::store:
        return follow_access(at->second);
      case Way::load_matrix:
      case Way::load_transposed:
      case Way::store_matrix:
      case Way::store_transposed:
        return follow_matrices(at->second);
      case Way::product:
        return follow_product();
      default:
        return follow_warp(at->second);
    }
  }

  void follow_lanes() {
    hits_ = take_results(step_->mask);
    if (hits_ == 0) return;
    if (in_->selects) {
      want(in_->s[0], hits_ & step_->chosen);
      want(in_->s[1], hits_ & ~step_->chosen);
      return;
    }
    for (int i = 0; i < in_->source_count; ++i) want(sources()[i], hits_);
  }

  void follow_copies() {
    const Recording::Copy* copies = recording_.copies(*step_);
    for (std::uint32_t i = 0; i < step_->copy_count; ++i) {
      const Recording::Copy& copy = copies[i];
      for (std::size_t byte = 0; byte < copy.bytes; ++byte) {
        if (!take(copy.to + byte, 1)) continue;
        hits_ |= 1u << copy.lane;
        if (copy.from) want(copy.from + byte, 1);
      }
    }
  }

  /// Of matrices whose elements said where they lie.
  void follow_elements() {
    const Recording::Element* elements = recording_.elements(*step_);
    const bool loads = in_->result_count > 0;
    std::vector<std::uint32_t> taken(in_->result_count);
    for (int i = 0; i < in_->result_count; ++i) {
      taken[static_cast<std::size_t>(i)] = take(results()[i], step_->mask);
    }
    for (std::uint32_t i = 0; i < step_->element_count; ++i) {
      const Recording::Element& e = elements[i];
      const std::uint32_t lane = 1u << e.lane;
      if (loads && (taken[static_cast<std::size_t>(e.operand)] & lane) != 0) {
        hits_ |= lane;
        last_result_ = e.operand;
        want(e.at, e.bytes);
      }
      if (!loads && take(e.at, e.bytes)) {
        hits_ |= lane;
        want(sources()[e.operand], lane);
      }
    }
  }

  void follow_access(Way way) {
    if (step_->pointers == Recording::none) return;
    const Recording::Pointers& pointers = recording_.pointers(*step_);
    const auto bytes = static_cast<std::size_t>(bytes_of(in_->type));
    const auto at = [&](int lane, int i) {
      return pointers[static_cast<std::size_t>(lane)] + static_cast<std::size_t>(i) * bytes;
    };
    if (way == Way::update) {
      std::uint32_t wanted = take_results(step_->mask);
      each_lane([&](int lane) {
        const bool stored = take(at(lane, 0), bytes);
        if (!stored && (wanted >> lane & 1) == 0) return;
        hits_ |= 1u << lane;
        want(at(lane, 0), bytes);  // what lay there
        if (!stored) return;
        want(in_->s[1], 1u << lane);
        want(in_->s[2], 1u << lane);
      });
      return;
    }
    for (int i = 0; i < in_->vector; ++i) {
      if (way == Way::load) {
        const std::uint32_t wanted = take(results()[i], step_->mask);
        if (wanted != 0) last_result_ = i;
        hits_ |= wanted;
        each_lane([&](int lane) {
          if (wanted >> lane & 1) want(at(lane, i), bytes);
        });
        continue;
      }
      const Place value = sources()[in_->source_count - in_->vector + i];
      each_lane([&](int lane) {
        if (!take(at(lane, i), bytes)) return;
        hits_ |= 1u << lane;
        want(value, 1u << lane);
      });
    }
  }

  /// Lane t holds the elements (t / 4, t % 4 · 2 + {0, 1}), or those transposed.
  void follow_matrices(Way way) {
    const Recording::Pointers& pointers = recording_.pointers(*step_);
    const bool loads = way == Way::load_matrix || way == Way::load_transposed;
    const bool transposed = way == Way::load_transposed || way == Way::store_transposed;
    for (int m = 0; m < in_->vector; ++m) {
      const Place place = loads ? results()[m] : sources()[in_->source_count - in_->vector + m];
      const std::uint32_t wanted = loads ? take(place, ~0u) : 0;
      if (wanted != 0) last_result_ = m;
      hits_ |= wanted;
      for (int lane = 0; lane < 32; ++lane) {
        for (int half = 0; half < 2; ++half) {
          int row = lane / 4, col = lane % 4 * 2 + half;
          if (transposed) std::swap(row, col);
          const std::byte* at = pointers[static_cast<std::size_t>(8 * m + row)] + 2 * col;
          if (loads && (wanted >> lane & 1) != 0) want(at, 2);
          if (loads || !take(at, 2)) continue;
          hits_ |= 1u << lane;
          want(place, 1u << lane);
        }
      }
    }
  }

  /// Element (lane / 4 + 8 · half, lane % 4 · 2 + {0, 1}) of d is of that row of a, that column of
  /// b, and of c.
  void follow_product() {
    const int d_count = in_->result_count, ab = in_->source_count - d_count;
    const int a_count = ab / 3 * 2;
    const Place *a = sources(), *b = a + a_count, *c = a + ab;
    const bool packed = d_count == 2;
    for (int i = 0; i < d_count; ++i) {
      const std::uint32_t wanted = take(results()[i], ~0u);
      if (wanted == 0) continue;
      last_result_ = i;
      hits_ |= wanted;
      std::uint32_t rows = 0, cols = 0;  // lanes that hold those
      for (int lane = 0; lane < 32; ++lane) {
        if (!(wanted >> lane & 1)) continue;
        rows |= 0xfu << lane / 4 * 4;
        const int pair = lane % 4 * 2;
        cols |= packed ? 0xffu << 4 * pair : 0xfu << 4 * (pair + i % 2);
      }
      const int half = packed ? i : i / 2;
      for (int k = 0; k < a_count; ++k) {
        if (k % 2 == half) products_.push_back({a[k], rows});
      }
      for (int k = 0; k < ab - a_count; ++k) products_.push_back({b[k], cols});
      products_.push_back({c[i], wanted});
    }
    // d may be one of them.
    for (const auto& [place, lanes] : products_) want(place, lanes);
    products_.clear();
  }

  void follow_warp(Way way) {
    const std::uint32_t wanted = take_results(step_->mask);
    if (wanted == 0) return;
    hits_ = wanted;
    if (step_->lanes != Recording::none) {
      const auto& from = recording_.lanes(*step_);
      std::uint32_t lanes = 0;
      each_lane([&](int lane) {
        if (wanted >> lane & 1) lanes |= 1u << from[static_cast<std::size_t>(lane)];
      });
      return want(in_->s[0], lanes);
    }
    for (int i = 0; i < in_->source_count; ++i) want(sources()[i], step_->mask);
    if (way == Way::warpgroup) {
      not_followed_.insert("operands in shared memory of " + program_.describe(step_->instruction));
    }
  }

  void note_marks() {
    if (step_->mark_count == 0) return;
    const std::uint32_t wanted = (*registers_)[slot_of(in_->s[3])];
    const Recording::Mark* marks = recording_.marks(*step_);
    for (std::uint32_t i = step_->mark_count; i-- > 0;) {
      if (wanted >> marks[i].thread % 32 & 1) slice_.marks.push_back(marks[i]);
    }
  }

  template <class F>
  void each_lane(F&& f) const {
    for (std::uint32_t left = step_->mask; left != 0; left &= left - 1) f(std::countr_zero(left));
  }

  void add_line() {
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
  const std::string& line_of(std::uint32_t instruction) {
    const auto [at, is_new] = lines_.try_emplace(instruction);
    if (is_new) at->second = program_.line_of(instruction);
    return at->second;
  }

  /// What is still wanted where the block began.
  void add_sources(const GlobalMemory& memory) {
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
    slice_.not_followed.assign(not_followed_.begin(), not_followed_.end());
  }

  const Program& program_;
  const Recording& recording_;
  Slice slice_;
  std::vector<std::vector<std::uint32_t>> wanted_;  ///< lanes, by warp and slot_of
  std::unordered_set<Address> bytes_;               ///< of memory, that are wanted
  std::map<std::uint32_t, Way> ways_;
  std::map<std::uint32_t, std::string> lines_;
  std::map<std::string, std::size_t> line_index_;
  std::set<std::string> not_followed_;
  std::vector<std::pair<Place, std::uint32_t>> products_;
  // Of the step at hand.
  const Recording::Step* step_ = nullptr;
  const Instruction* in_ = nullptr;
  std::vector<std::uint32_t>* registers_ = nullptr;
  std::uint32_t hits_ = 0;  ///< lanes through which it came
  int last_result_ = -1;    ///< one that was wanted
};

}  // namespace

Slice slice_of(const Program& program, const Recording& recording, const std::byte* begin,
               std::size_t bytes, std::int64_t block, const GlobalMemory& memory) {
  Slice slice = Slicer(program, recording).run(begin, bytes, memory);
  slice.block = block;
  if (!recording.whole()) slice.not_followed.push_back("the block did more than can be recorded");
  return slice;
}

}  // namespace lanescope::ptx

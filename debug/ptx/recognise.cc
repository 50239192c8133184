#include "debug/ptx/recognise.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace lanescope::ptx {
namespace {

/// A set of small numbers, and how another process reads it: in hexadecimal, four a digit.
class Marks {
 public:
  /// False where it was there.
  bool add(std::size_t i) {
    if (i / 4 >= digits_.size()) digits_.resize(i / 4 + 1);
    std::uint8_t& digit = digits_[i / 4];
    const bool is_new = (digit >> i % 4 & 1) == 0;
    digit = static_cast<std::uint8_t>(digit | 1u << i % 4);
    count_ += is_new;
    return is_new;
  }
  void add(const Marks& other) {
    if (digits_.size() < other.digits_.size()) digits_.resize(other.digits_.size());
    for (std::size_t i = 0; i < other.digits_.size(); ++i) digits_[i] |= other.digits_[i];
  }
  std::int64_t count() const { return count_; }
  std::string text() const {
    if (digits_.empty()) return "0";
    std::string text;
    for (const std::uint8_t digit : digits_) text += "0123456789abcdef"[digit];
    return text;
  }

 private:
  std::vector<std::uint8_t> digits_;
  std::int64_t count_ = 0;
};

/// By how much results are changed, each time anew, to see what is known by chance; of a kind of
/// many numbers, every fourth result.
constexpr std::array<double, 3> shifts = {0x1p-7, -0x1p-6, 0x1p-5};
std::int64_t shift_every(const KnownKind& kind) { return kind.numbers.size() > 4096 ? 4 : 1; }

/// Elements of a kind that the results of an instruction come to; those that they would come to if
/// they were off by any of the shifts, and of the first, how many no instruction had come to
/// before.
struct Seen {
  Marks elements, by_chance;
  std::int64_t made = 0, results = 0;
  /// Some, and many times as many as by chance.
  bool is_source(const KnownKind& kind) const {
    const auto tries = static_cast<std::int64_t>(shifts.size());
    return elements.count() >= 8 &&
           tries * elements.count() > 4 * shift_every(kind) * by_chance.count();
  }
};

/// The numbers of a kind, by the first bits of their values.
class Numbers {
 public:
  explicit Numbers(const KnownKind& kind) : kind_(kind), begin_((1u << index_bits) + 1) {
    for (const KnownNumber& number : kind.numbers) ++begin_[index_of(number.value) + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  }
  /// The elements that have one near `value`.
  template <class F>
  void each_near(double value, F&& f) const {
    const double within = kind_.absolute + kind_.relative * std::abs(value);
    const auto from = static_cast<float>(value - within);
    const std::size_t index = index_of(from);
    const auto first = kind_.numbers.begin();
    auto it = std::lower_bound(
        first + begin_[index], first + begin_[index + 1], from,
        [](const KnownNumber& number, float least) { return number.value < least; });
    for (; it != kind_.numbers.end() && it->value <= value + within; ++it) f(it->element);
  }

 private:
  static constexpr int index_bits = 14;
  static std::uint32_t index_of(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return (bits >> 31 != 0 ? ~bits : bits | 1u << 31) >> (32 - index_bits);
  }

  const KnownKind& kind_;
  std::vector<std::uint32_t> begin_;  ///< of the numbers with each index
};

class Search {
 public:
  Search(const GlobalMemory& memory, const Lookout& lookout)
      : memory_(memory), lookout_(lookout), made_(lookout.kinds.size()) {
    for (const KnownKind& kind : lookout.kinds) numbers_.emplace_back(kind);
  }

  void go_over(const History::Run& run) {
    program_ = run.program.get();
    recording_ = &run.recording;
    shares_ = shares_ || std::any_of(program_->origins.begin(), program_->origins.end(),
                                     [](const auto& in) { return in.opcode.starts_with("mapa"); });
    rows_ = {};
    for (const Recording::Step& step : run.recording.steps()) {
      const Instruction& in = program_->code[step.instruction];
      if (step.copy_count > 0) {
        note_copies(step);
      } else if (step.pointers != Recording::none) {
        note_accesses(step, in);
      }
      if (!step.landed && makes_floats(in)) note_numbers(step, in);
    }
    for (const auto& [instruction, words] : last_) {
      for (const std::uint32_t word : words) compare(word, instruction, true);
    }
    last_.clear();
    for (std::size_t i = 0; i < accessing_.size(); ++i) note_lines(i);
    text_ += "block " + std::to_string(run.block);
    for (const Marks& rows : rows_) text_ += " " + rows.text();
    text_ += "\n";
  }

  /// What was seen, of all blocks that it went over.
  std::string text() const {
    std::string text = text_ + (multicasts_ ? "multicast\n" : "") + (shares_ ? "share\n" : "");
    for (const auto& [rows, line] : row_lines_) {
      text += "rows " + std::to_string(rows) + " " + line + "\n";
    }
    for (std::size_t kind = 0; kind < lookout_.kinds.size(); ++kind) {
      Marks elements;
      std::map<std::string, std::int64_t> lines;
      for (const auto& [origin, kinds] : seen_) {
        const Seen& seen = kinds[kind];
        if (!seen.is_source(lookout_.kinds[kind])) continue;
        elements.add(seen.elements);
        if (seen.made > 0) lines[origin.first->line_of(origin.second)] += seen.made;
      }
      text += "kind " + std::to_string(kind) + " " + elements.text() + "\n";
      for (const auto& [line, made] : lines) {
        text += "line " + std::to_string(kind) + " " + std::to_string(made) + " " + line + "\n";
      }
    }
    return text;
  }

 private:
  using Origin = std::pair<const Program*, std::uint32_t>;

  static bool makes_floats(const Instruction& in) {
    if (in.result_count == 0 || in.issues_product) return false;
    const Type type = in.lanes ? in.makes : in.multiplies ? Type::f32 : in.type;
    return type == Type::f32;
  }

  void note_numbers(const Recording::Step& step, const Instruction& in) {
    std::vector<std::uint32_t>& last = last_[step.instruction];
    const std::size_t first = std::size_t{32} * in.result_count * step.warp;
    if (last.size() < first + std::size_t{32} * in.result_count) {
      last.resize(first + std::size_t{32} * in.result_count);
    }
    for (std::uint32_t left = step.mask; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      for (int i = 0; i < in.result_count; ++i) {
        const std::uint32_t word = recording_->result(step, i, lane);
        compare(word, step.instruction, false);
        last[first + static_cast<std::size_t>(32 * i + lane)] = word;
      }
    }
  }

  /// With the kinds of which all, or the last, results count.
  void compare(std::uint32_t word, std::uint32_t instruction, bool is_last) {
    // What f16 or bf16 holds as well is an input, more often than not.
    const auto value = std::bit_cast<float>(word);
    if ((word & 0x1fff) == 0 || !std::isfinite(value)) return;
    std::vector<Seen>& kinds = seen_[{program_, instruction}];
    kinds.resize(lookout_.kinds.size());
    for (std::size_t of = 0; of < kinds.size(); ++of) {
      const KnownKind& kind = lookout_.kinds[of];
      if (kind.is_last != is_last) continue;
      numbers_[of].each_near(value, [&](std::uint32_t element) {
        kinds[of].elements.add(element);
        kinds[of].made += made_[of].add(element);
      });
      if (kinds[of].results++ % shift_every(kind) != 0) continue;
      for (const double shift : shifts) {
        numbers_[of].each_near(value * (1 + shift),
                               [&](std::uint32_t element) { kinds[of].by_chance.add(element); });
      }
    }
  }

  /// The lines of the instructions that came to rows of an array.
  void note_lines(std::size_t array) {
    for (const std::uint32_t instruction : std::exchange(accessing_[array], {})) {
      row_lines_.emplace(array, program_->line_of(instruction));
    }
  }

  void note_copies(const Recording::Step& step) {
    const Recording::Copy* copies = recording_->copies(step);
    const std::string& opcode = program_->origins[step.instruction].opcode;
    if (opcode.find(".multicast") != opcode.npos) multicasts_ = true;
    for (std::uint32_t i = 0; i < step.copy_count; ++i) {
      note_rows(step, copies[i].from, copies[i].bytes, false);
      note_rows(step, copies[i].to, copies[i].bytes, true);
    }
  }

  void note_accesses(const Recording::Step& step, const Instruction& in) {
    const std::string_view opcode = program_->origins[step.instruction].opcode;
    const bool stores = opcode.starts_with("st");
    if (!stores && !opcode.starts_with("ld")) return;
    const std::size_t bytes = static_cast<std::size_t>(bytes_of(in.type)) * in.vector;
    for (std::uint32_t left = step.mask; left != 0; left &= left - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(left));
      note_rows(step, recording_->pointers(step)[lane], bytes, stores);
    }
  }

  void note_rows(const Recording::Step& step, const std::byte* at, std::size_t bytes,
                 bool written) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const GlobalMemory::Area* area = at && bytes > 0 ? memory_.find(address, bytes) : nullptr;
    if (!area || !area->host) return;
    const std::byte* host = area->host + (address - area->begin);
    for (std::size_t i = 0; i < accessing_.size(); ++i) {
      const KnownRows& of = i < rows_.size() ? lookout_.rows[i] : lookout_.log_sums;
      const auto offset = static_cast<std::size_t>(host - of.begin);
      if (offset >= of.bytes || written != (i >= 3)) continue;
      accessing_[i].insert(step.instruction);
      if (i == rows_.size()) continue;
      for (std::size_t row = offset / of.row_bytes; row * of.row_bytes < offset + bytes; ++row) {
        rows_[i].add(row);
      }
    }
  }

  const GlobalMemory& memory_;
  const Lookout& lookout_;
  const Program* program_ = nullptr;
  const Recording* recording_ = nullptr;
  std::array<Marks, 4> rows_;
  /// Instructions that come to these, and to log-sum-exps.
  std::array<std::set<std::uint32_t>, std::tuple_size_v<RowLines>> accessing_;
  std::set<std::pair<std::size_t, std::string>> row_lines_;  ///< array and line, of all blocks
  std::vector<Numbers> numbers_;                             ///< of each kind
  std::vector<Marks> made_;                                  ///< elements of each kind
  std::map<Origin, std::vector<Seen>> seen_;
  /// By instruction: the words of its results in each lane of the block.
  std::map<std::uint32_t, std::vector<std::uint32_t>> last_;
  bool multicasts_ = false;  ///< blocks get rows that others read
  bool shares_ = false;      ///< blocks of a cluster come to each other's shared memory
  std::string text_;
};

}  // namespace

void look_out(const History& history, const GlobalMemory& memory, const Lookout& lookout) {
  Search search(memory, lookout);
  for (const History::Run& run : history.runs()) {
    if (run.launch == history.launch()) search.go_over(run);
  }
  const std::string text = search.text();
  [[maybe_unused]] const ssize_t written = write(lookout.file, text.data(), text.size());
}

}  // namespace lanescope::ptx

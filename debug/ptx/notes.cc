#include "debug/ptx/notes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string_view>

#include "debug/text/text.h"

namespace lanescope::ptx {
namespace {

std::string lane_text(int thread) {
  return "warp " + std::to_string(thread / 32) + ", lane " + std::to_string(thread % 32);
}

std::string number_note(const char* name, const NumberMade& number, const Program& program) {
  std::string text =
      std::string("first ") + name + ": " + program.describe(number.instruction) + " of ";
  for (int i = 0; i < number.count; ++i) {
    text += (i > 0 ? ", " : "") + number_text(number.operands[static_cast<std::size_t>(i)], 6);
  }
  if (number.count == 0) text.erase(text.size() - 4);  // of a product of matrices
  return text + ", block " + std::to_string(number.block) + ", " + lane_text(number.thread);
}

/// Which way its operand came: "  from max.f32 at x.cu:15: -inf, warp 0, lane 2".
void add_way(const NumberMade& number, const Program& program, std::vector<std::string>& notes) {
  constexpr std::size_t most = 12, last = 3;
  const auto& way = number.way;
  for (std::size_t i = 0; i < way.size(); ++i) {
    if (way.size() > most && i == most - last) {
      notes.push_back("  from " + std::to_string(way.size() - most) + " more");
      i = way.size() - last;
    }
    const NumberStep& step = way[i];
    notes.push_back("  from " + program.describe(step.instruction) + ": " +
                    number_text(step.value, 6) + ", " + lane_text(step.thread) +
                    (step.address != 0 ? ", which global memory held" : ""));
  }
}

/// Where the way of an infinity goes from x − (−inf) to the code's own −inf, such as the one that a
/// maximum starts from: the difference.
const NumberStep* difference_from_start(const NumberMade& nan, const Program& program) {
  const auto& way = nan.way;
  if (way.empty() || !program.origins[way.back().instruction].opcode.starts_with("mov")) {
    return nullptr;
  }
  for (std::size_t i = way.size() - 1; i > 0; --i) {
    const bool rises = way[i - 1].value > 0 && way[i].value < 0;
    if (std::isinf(way[i].value) && std::isinf(way[i - 1].value) && rises) return &way[i - 1];
  }
  return nullptr;
}

std::string times(std::int64_t count) {
  return count == 1 ? "once" : std::to_string(count) + " times";
}

/// "12.5", "4"
std::string average(std::int64_t sum, std::int64_t count) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g",
                static_cast<double>(sum) / static_cast<double>(std::max<std::int64_t>(count, 1)));
  return text;
}

}  // namespace

std::vector<std::string> number_notes(const NumbersMade& made, const Program& program) {
  std::vector<std::string> notes;
  if (made.nan.block >= 0) {
    notes.push_back(number_note("NaN", made.nan, program));
    add_way(made.nan, program, notes);
  }
  // Infinities come and go in masks; with a NaN they may be where it comes from.
  if (made.infinity.block >= 0 && (made.nan.block >= 0 || made.leaves)) {
    notes.push_back(number_note("infinity", made.infinity, program));
  }
  return notes;
}

simt::NanOrigin nan_origin(const NumbersMade& made, const Program& program) {
  using Kind = simt::NanOrigin::Kind;
  const NumberMade& nan = made.nan;
  if (nan.block < 0) return {};
  const auto base_at = [&](std::uint32_t instruction) {
    const std::string_view opcode = program.origins[instruction].opcode;
    return opcode.substr(0, opcode.find('.'));
  };
  // Where the way of its infinity begins: what made that of finite numbers, if it was made.
  std::uint32_t blamed = nan.instruction;
  Kind kind = Kind::other;
  if (!nan.way.empty()) {
    const std::uint32_t root = nan.way.back().instruction;
    const std::string_view base = base_at(root);
    // expf multiplies what ex2 gives by a power of two.
    const bool is_power =
        base == "ex2" || (base == "mul" && program.one_stage_of(root) == Stage::softmax);
    kind = is_power                         ? Kind::exponential
           : base == "cvt"                  ? Kind::narrowing
           : base == "rcp" || base == "div" ? Kind::division
                                            : Kind::other;
    if (kind == Kind::exponential || kind == Kind::narrowing) blamed = root;
  }
  if (const NumberStep* difference = difference_from_start(nan, program)) {
    const std::uint32_t at = difference->instruction;
    return {Kind::start, program.one_stage_of(at), program.line_of(at) + program.calls_of(at)};
  }
  const std::string_view base = base_at(nan.instruction);
  const auto operands = std::span(nan.operands).first(static_cast<std::size_t>(nan.count));
  const bool any_infinite = std::ranges::any_of(operands, [](float x) { return std::isinf(x); });
  if (kind == Kind::other && base == "div" && !any_infinite) kind = Kind::division;
  const bool is_sum = base == "sub" || base == "add" || base == "fma";
  const bool of_zero = std::ranges::any_of(operands, [](float x) { return x == 0; });
  const bool is_quotient = base == "div" || base == "mul";
  if (kind == Kind::division && of_zero && is_quotient) kind = Kind::empty;
  if (kind == Kind::other && is_sum && any_infinite && !of_zero) kind = Kind::difference;
  return {kind, program.one_stage_of(blamed),
          program.line_of(nan.instruction) + program.calls_of(nan.instruction)};
}

std::vector<std::string> wait_notes(const Tally& tally, const Program& program) {
  std::vector<std::string> notes;
  for (std::uint32_t i = 0; i < tally.size(); ++i) {
    const InstructionTally& t = tally[i];
    if (t.waits > 0 && t.awaited == 0) {
      notes.push_back("dead wait: " + program.describe(i) + " ran " + times(t.waits) +
                      ", and never had anything to wait for");
    }
    if (t.crossed > 0) {
      notes.push_back("barrier: some warps waited in " + program.describe(i) +
                      " when it opened, others in " + program.describe(t.other) +
                      ": the first such in " + std::to_string(t.crossed) +
                      (t.crossed == 1 ? " block" : " blocks"));
    }
    if (t.opened_short > 0) {
      notes.push_back("barrier: " + program.describe(i) + " opened " + times(t.opened_short) +
                      " without lanes that had exited: in block " + std::to_string(t.block) +
                      " for " + std::to_string(t.came) + " of " + std::to_string(t.expected));
    }
  }
  return notes;
}

std::vector<std::string> access_notes(const Tally& tally, const Program& program,
                                      std::size_t most) {
  std::vector<std::string> notes;
  const std::vector<LineCost> lines = costly_lines(tally, program);
  for (const auto& [line, shared, cost] : lines) {
    if (notes.size() == most) {
      notes.push_back("accesses of " + std::to_string(lines.size() - most) + " more lines");
      break;
    }
    notes.push_back(std::string(shared ? "bank conflicts: " : "uncoalesced: ") + line + ": " +
                    average(cost.taken, cost.accesses) +
                    (shared ? " wavefronts" : " sectors of 32 bytes") + " per access, and " +
                    average(cost.needed, cost.accesses) + " would do; " +
                    std::to_string(cost.accesses) +
                    (cost.accesses == 1 ? " access of a warp" : " accesses of warps"));
  }
  return notes;
}

}  // namespace lanescope::ptx

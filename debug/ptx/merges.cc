#include "debug/ptx/merges.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace lanescope::ptx {
namespace {

/// Where a kernel puts parts of rows together.
struct Merging {
  Instructions merges, scores, products;
  Instructions sums;  ///< of P·V
  bool takes_inputs() const { return !scores.empty() || !products.empty(); }
};

std::map<const Program*, Merging> merging_kernels(const TermReplay& replay) {
  std::map<const Program*, Merging> kernels;
  replay.each_made(
      [&](const Program& program, std::uint32_t instruction, const TermReplay::Made& made) {
        Merging& own = kernels[&program];
        if (made.merges) own.merges.push_back(instruction);
        if (made.scores) own.scores.push_back(instruction);
        if (made.weighs) own.products.push_back(instruction);
        if (made.adds) own.sums.push_back(instruction);
      });
  for (auto& [program, own] : kernels) {
    // What one does that multiplies no inputs adds up parts, however it weighs them.
    if (!own.takes_inputs() && own.merges.empty()) own.merges = own.sums;
    // What earlier tiles gave may be rescaled as that of this one is added to it.
    const auto loops = loops_over_tiles(*program, own.scores, own.products);
    std::erase_if(own.merges, [&](std::uint32_t instruction) {
      const auto behind = loops.upper_bound(instruction);
      return behind != loops.begin() && std::prev(behind)->second >= instruction;
    });
  }
  std::erase_if(kernels, [](const auto& kernel) { return kernel.second.merges.empty(); });
  return kernels;
}

/// The instruction behind the outermost loop that an instruction is in, of those that begin at
/// `first` or later.
std::uint32_t end_of_loop(const Program& program, std::uint32_t instruction, std::uint32_t first) {
  std::uint32_t end = instruction + 1;
  for (std::uint32_t i = end; i < program.code.size(); ++i) {
    const Instruction& in = program.code[i];
    if (in.branches && in.target <= instruction && in.target >= first) end = i + 1;
  }
  return end;
}

/// The instruction behind the loop of the last P·V before parts are put together.
std::uint32_t begin_of_merge(const Program& program, const Merging& of) {
  std::uint32_t product = 0;
  for (const std::uint32_t each : of.products) {
    if (each < of.merges.front()) product = std::max(product, each);
  }
  std::uint32_t begin = product + 1;
  for (std::uint32_t i = begin; i < of.merges.front(); ++i) {
    const Instruction& in = program.code[i];
    if (in.branches && in.target <= product) begin = i + 1;
  }
  return begin;
}

}  // namespace

std::map<std::uint32_t, std::uint32_t> loops_over_tiles(const Program& program,
                                                        const Instructions& scores,
                                                        const Instructions& products) {
  const auto is_any_in = [](const Instructions& some, std::uint32_t first, std::uint32_t last) {
    const auto at = std::ranges::lower_bound(some, first);
    return at != some.end() && *at <= last;
  };
  std::map<std::uint32_t, std::uint32_t> loops;
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    const Instruction& in = program.code[i];
    if (in.branches && in.target <= i) loops[in.target] = i;
  }
  std::erase_if(loops, [&](const auto& loop) {
    return !is_any_in(scores, loop.first, loop.second) ||
           !is_any_in(products, loop.first, loop.second);
  });
  const auto all = loops;
  std::erase_if(loops, [&](const auto& loop) {
    const auto inner = all.upper_bound(loop.first);
    return inner != all.end() && inner->second <= loop.second;
  });
  return loops;
}

Merges merges_of(const TermReplay& replay) {
  Merges found;
  for (const auto& [program, own] : merging_kernels(replay)) {
    for (const std::uint32_t instruction : own.merges) found.at.emplace(program, instruction);
    const auto count = static_cast<std::uint32_t>(program->code.size());
    const bool alone = !own.takes_inputs();
    const std::uint32_t begin = alone ? 0 : begin_of_merge(*program, own),
                        end = alone ? count : end_of_loop(*program, own.merges.back(), begin);
    std::set<std::string> elsewhere;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i < begin || i >= end) elsewhere.insert(program->line_of(i));
    }
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::string line = program->line_of(i);
      if (!elsewhere.contains(line)) found.lines.insert(line + program->calls_of(i));
    }
  }
  return found;
}

}  // namespace lanescope::ptx

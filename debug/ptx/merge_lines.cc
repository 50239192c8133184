#include "debug/ptx/merge_lines.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace lanescope::ptx {
namespace {

/// Where a kernel puts parts of rows together.
struct Merging {
  std::uint32_t first = 0, last = 0;  ///< instructions; 0: it does not
  std::vector<std::uint32_t> products;
  bool takes_inputs = false;
  std::vector<std::uint32_t> sums = {};  ///< of P·V
};

std::map<const Program*, Merging> merging_kernels(const TermReplay& replay) {
  std::map<const Program*, Merging> kernels;
  replay.each_made(
      [&](const Program& program, std::uint32_t instruction, const TermReplay::Made& made) {
        Merging& own = kernels[&program];
        if (made.merges && own.last == 0) own.first = instruction;
        if (made.merges) own.last = instruction;
        if (made.weighs) own.products.push_back(instruction);
        if (made.adds) own.sums.push_back(instruction);
        own.takes_inputs = own.takes_inputs || made.scores || made.weighs;
      });
  // What one does that multiplies no inputs adds up parts, however it weighs them.
  for (auto& [program, own] : kernels) {
    if (own.takes_inputs || own.sums.empty() || own.last != 0) continue;
    own.first = own.sums.front();
    own.last = own.sums.back();
  }
  std::erase_if(kernels, [](const auto& kernel) { return kernel.second.last == 0; });
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
    if (each < of.first) product = std::max(product, each);
  }
  std::uint32_t begin = product + 1;
  for (std::uint32_t i = begin; i < of.first; ++i) {
    const Instruction& in = program.code[i];
    if (in.branches && in.target <= product) begin = i + 1;
  }
  return begin;
}

}  // namespace

std::set<std::string> merge_lines(const TermReplay& replay) {
  std::set<std::string> lines;
  for (const auto& [program, own] : merging_kernels(replay)) {
    const auto count = static_cast<std::uint32_t>(program->code.size());
    const std::uint32_t begin = own.takes_inputs ? begin_of_merge(*program, own) : 0,
                        end = own.takes_inputs ? end_of_loop(*program, own.last, begin) : count;
    std::set<std::string> elsewhere;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i < begin || i >= end) elsewhere.insert(program->line_of(i));
    }
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::string line = program->line_of(i);
      if (!elsewhere.contains(line)) lines.insert(line + program->calls_of(i));
    }
  }
  return lines;
}

}  // namespace lanescope::ptx

#include "debug/ptx/address_lines.h"

#include <algorithm>
#include <set>

namespace lanescope::ptx {

AddressLines::AddressLines(const Program& program) : program_(program) {
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    const Instruction& in = program.code[i];
    for (int result = 0; result < in.result_count; ++result) {
      makers_.emplace(program.operands[in.operands + static_cast<std::uint32_t>(result)], i);
    }
  }
}

std::vector<std::string> AddressLines::of(std::uint32_t instruction) const {
  constexpr int most_steps = 12;
  constexpr std::size_t most_lines = 4;
  std::vector<std::string> lines;
  std::vector<std::uint32_t> now{instruction};
  std::set<std::uint32_t> known{instruction};
  const std::string own = program_.line_of(instruction);
  for (int step = 0; step < most_steps && !now.empty(); ++step) {
    std::vector<std::uint32_t> before;
    for (const std::uint32_t at : now) {
      const Instruction& in = program_.code[at];
      const std::string line = program_.line_of(at) + program_.calls_of(at);
      const bool is_new = std::find(lines.begin(), lines.end(), line) == lines.end();
      if (!line.starts_with(own) && is_new && lines.size() < most_lines) lines.push_back(line);
      for (int i = in.source_count; i-- > 0;) {
        const auto [first, last] = makers_.equal_range(
            program_.operands[in.operands + static_cast<std::uint32_t>(in.result_count + i)]);
        for (auto maker = first; maker != last; ++maker) {
          if (known.insert(maker->second).second) before.push_back(maker->second);
        }
      }
    }
    now = std::move(before);
  }
  return lines;
}

}  // namespace lanescope::ptx

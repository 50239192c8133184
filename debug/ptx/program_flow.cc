#include "debug/ptx/program_flow.h"

#include <string_view>
#include <vector>

namespace lanescope::ptx {

bool leads_to(const Program& program, std::uint32_t from, std::uint32_t to) {
  std::vector<bool> seen(program.code.size());
  std::vector<std::uint32_t> open;
  const auto reach = [&](std::uint32_t next) {
    if (next >= seen.size() || seen[next]) return;
    seen[next] = true;
    open.push_back(next);
  };
  const auto reach_behind = [&](std::uint32_t at) {
    const Instruction& in = program.code[at];
    const std::string_view opcode = program.origins[at].opcode;
    if (in.branches) reach(in.target);
    const bool by_index = opcode.starts_with("brx");
    if (by_index) {
      for (const auto next : program.branch_lists[static_cast<std::size_t>(in.immediate)]) {
        reach(next);
      }
    }
    const bool ends = in.branches || by_index || opcode.starts_with("ret") ||
                      opcode.starts_with("exit") || opcode.starts_with("trap");
    if (!ends || in.guard != no_place) reach(at + 1);
  };
  reach_behind(from);
  while (!open.empty()) {
    const std::uint32_t at = open.back();
    open.pop_back();
    if (at == to) return true;
    reach_behind(at);
  }
  return false;
}

}  // namespace lanescope::ptx

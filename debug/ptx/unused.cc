#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "debug/ptx/control_flow.h"

namespace lanescope::ptx {
namespace {

bool names(const Operand& operand, int reg) {
  if (operand.kind == Operand::Kind::reg) return operand.index == reg;
  return std::any_of(operand.parts.begin(), operand.parts.end(),
                     [&](const Operand& part) { return names(part, reg); });
}

/// Does nothing but assign to its first operand.
bool only_assigns(std::string_view opcode) {
  constexpr std::string_view known[] = {"mov", "selp", "cvt", "and", "or", "xor", "not", "setp"};
  const std::string_view base = opcode.substr(0, opcode.find('.'));
  return std::find(std::begin(known), std::end(known), base) != std::end(known);
}
/// Whether its first operand is one that it assigns to.
bool has_result(std::string_view opcode) {
  return only_assigns(opcode) || opcode.starts_with("mbarrier.t");  // test_wait, try_wait
}

}  // namespace

bool is_unused(const Function& function, int reg) {
  std::vector<int> left = {reg};
  std::set<int> seen = {reg};
  while (!left.empty()) {
    const int now = left.back();
    left.pop_back();
    for (const Statement& statement : function.statements) {
      if (statement.guard == now) return false;
      const auto& operands = statement.operands;
      const auto sources = operands.begin() + (has_result(statement.opcode) ? 1 : 0);
      if (std::none_of(sources, operands.end(),
                       [&](const Operand& source) { return names(source, now); })) {
        continue;
      }
      if (!only_assigns(statement.opcode)) return false;
      std::vector<int> results;
      add_registers(operands.front(), results);
      for (const int result : results) {
        if (seen.insert(result).second) left.push_back(result);
      }
    }
  }
  return true;
}

}  // namespace lanescope::ptx

#include "debug/ptx/assigned_values.h"

#include <set>
#include <string_view>

#include "debug/ptx/control_flow.h"
#include "debug/ptx/number_roles.h"

namespace lanescope::ptx {
namespace {

/// Whether the number that it makes is one of its operands, in another form or scale.
bool passes_on(std::string_view base) {
  return is_one_of(base, {"mov", "cvt", "selp", "mul", "prmt", "and", "or", "shl", "shr", "cvta"});
}

}  // namespace

std::uint8_t stage_of_value(const Assignments& assignments, std::vector<int> open) {
  std::set<int> asked(open.begin(), open.end());
  bool loaded = false, drawn = false, added = false;
  while (!open.empty()) {
    const auto at = assignments.find(open.back());
    open.pop_back();
    if (at == assignments.end()) return 0;
    for (const Statement* const statement : at->second) {
      const std::string_view base = base_of(*statement);
      if (base == "ex2") return bit_of(Stage::softmax);
      if (base == "ld" || base == "ldu") {
        const bool global = statement->opcode.find(".global") != statement->opcode.npos;
        if (!global && statement->opcode.find(".param") == statement->opcode.npos) return 0;
        loaded = loaded || global;
        continue;
      }
      // A number that one thread draws for all: the item whose tiles are loaded.
      if (base == "atom") {
        drawn = drawn || statement->opcode.find(".shared") == statement->opcode.npos;
        continue;
      }
      if (makes_exponent(*statement)) continue;  // its sign and size are no number's
      const bool counts = base == "add" && !is_real(statement->opcode);  // from the last block on
      if (!passes_on(base) && !counts) return 0;
      added = added || counts;
      std::vector<int> sources;
      for (std::size_t i = 1; i < statement->operands.size(); ++i) {
        // The last operand of a selection is the predicate.
        if (base == "selp" && i + 1 == statement->operands.size()) continue;
        add_registers(statement->operands[i], sources);
      }
      for (const int source : sources) {
        if (asked.insert(source).second) open.push_back(source);
      }
    }
  }
  return bit_if(drawn || (loaded && !added), Stage::load);
}

bool is_of_other_block(const Assignments& assignments, const Statement& statement) {
  std::vector<int> open;
  for (const Operand& operand : statement.operands) {
    if (operand.kind == Operand::Kind::address) add_registers(operand.parts.front(), open);
  }
  std::set<int> asked(open.begin(), open.end());
  while (!open.empty()) {
    const auto at = assignments.find(open.back());
    open.pop_back();
    if (at == assignments.end()) continue;
    for (const Statement* const by : at->second) {
      const std::string_view base = base_of(*by);
      if (base == "mapa") return true;
      if (!is_one_of(base, {"mov", "add", "cvt", "cvta"})) continue;
      std::vector<int> sources;
      for (std::size_t i = 1; i < by->operands.size(); ++i) add_registers(by->operands[i], sources);
      for (const int source : sources) {
        if (asked.insert(source).second) open.push_back(source);
      }
    }
  }
  return false;
}

}  // namespace lanescope::ptx

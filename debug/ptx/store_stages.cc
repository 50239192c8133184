#include "debug/ptx/store_stages.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "debug/ptx/control_flow.h"
#include "debug/ptx/marker.h"
#include "reference/site.h"

namespace lanescope::ptx {
namespace {

using Assignments = std::unordered_map<int, std::vector<const Statement*>>;  ///< by register

bool is_one_of(std::string_view base, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), base) != names.end();
}

/// Whether the number that it makes is one of its operands, in another form or scale.
bool passes_on(std::string_view base) {
  return is_one_of(base, {"mov", "cvt", "selp", "mul", "prmt", "and", "or", "shl", "shr", "cvta"});
}

std::uint8_t bit_of(Stage stage) { return static_cast<std::uint8_t>(1 << static_cast<int>(stage)); }

/// Of the value in some registers. Which of several assignments it is from is left open.
std::uint8_t stage_of_value(const Assignments& assignments, std::vector<int> open) {
  std::set<int> asked(open.begin(), open.end());
  bool loaded = false;
  while (!open.empty()) {
    const auto at = assignments.find(open.back());
    open.pop_back();
    if (at == assignments.end()) return 0;
    for (const Statement* const statement : at->second) {
      const std::string_view base = statement->opcode.substr(0, statement->opcode.find('.'));
      if (base == "ex2") return bit_of(Stage::softmax);
      if (base == "ld" || base == "ldu") {
        const bool global = statement->opcode.find(".global") != statement->opcode.npos;
        if (!global && statement->opcode.find(".param") == statement->opcode.npos) return 0;
        loaded = loaded || global;
        continue;
      }
      if (!passes_on(base)) return 0;
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
  return loaded ? bit_of(Stage::load) : 0;
}

/// An asynchronous copy from global to shared memory: its destination is named first.
bool copies_to_shared(std::string_view opcode) {
  if (!opcode.starts_with("cp.async") || opcode.find(".global") == opcode.npos) return false;
  return opcode.find(".shared") < opcode.find(".global");
}

}  // namespace

std::vector<std::uint8_t> stages_of_stores(const Function& function) {
  Assignments assignments;
  for (const Statement& statement : function.statements) {
    if (statement.operands.empty() || is_marker(statement)) continue;
    std::vector<int> results;
    add_registers(statement.operands.front(), results);
    for (const int result : results) assignments[result].push_back(&statement);
  }
  std::vector<std::uint8_t> stages(function.statements.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Statement& statement = function.statements[i];
    if (is_marker(statement)) continue;
    if (copies_to_shared(statement.opcode)) stages[i] = bit_of(Stage::load);
    if (!statement.opcode.starts_with("st.shared") || statement.operands.size() < 2) continue;
    std::vector<int> stored;
    add_registers(statement.operands.back(), stored);
    if (!stored.empty()) stages[i] = stage_of_value(assignments, std::move(stored));
  }
  return stages;
}

}  // namespace lanescope::ptx

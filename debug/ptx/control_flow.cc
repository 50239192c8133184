#include "debug/ptx/control_flow.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "debug/ptx/marker.h"
#include "debug/ptx/program.h"
#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope::ptx {
namespace {

using Followers = std::vector<std::vector<std::uint32_t>>;

std::optional<Marker> marker_of(const Statement& statement) {
  if (!is_marker(statement)) return std::nullopt;
  std::string_view words = statement.opcode;
  return take_marker(words);
}

/// The registers that a statement assigns to.
std::vector<int> results_of(const Statement& statement) {
  std::vector<int> registers;
  if (statement.operands.empty()) return registers;
  if (!is_marker(statement)) {
    add_registers(statement.operands.front(), registers);
  } else if (is_injection(statement)) {
    add_registers(statement.operands.back(), registers);
  }
  return registers;
}

/// Carries what holds before each statement from one to the next, until nothing changes.
/// step(statement, state): what holds behind it; join(state, other): whether `state` has grown.
template <class State, class Step, class Join>
std::vector<State> carry(const Followers& followers, State first, Step&& step, Join&& join) {
  std::vector<State> states(followers.size() + 1);
  std::vector<bool> seen(states.size());
  std::set<std::uint32_t> open;
  if (followers.empty()) return states;
  states[0] = std::move(first);
  seen[0] = true;
  open.insert(0);
  while (!open.empty()) {
    const std::uint32_t at = *open.begin();
    open.erase(open.begin());
    const State behind = step(at, states[at]);
    for (const std::uint32_t next : followers[at]) {
      const bool grown = join(states[next], behind);
      if ((grown || !seen[next]) && next < followers.size()) open.insert(next);
      seen[next] = true;
    }
  }
  return states;
}

bool is_product(const Statement& statement) {
  return statement.opcode.starts_with("wgmma.mma_async");
}

/// The registers that a mov reads; none of another statement.
std::vector<int> copied_by(const Statement& statement) {
  std::vector<int> registers;
  if (base_of(statement) == "mov" && statement.operands.size() == 2) {
    add_registers(statement.operands[1], registers);
  }
  return registers;
}

}  // namespace

std::string_view base_of(const Statement& statement) {
  return statement.opcode.substr(0, statement.opcode.find('.'));
}

void add_registers(const Operand& operand, std::vector<int>& registers) {
  if (operand.kind == Operand::Kind::reg) registers.push_back(operand.index);
  if (operand.kind != Operand::Kind::vector && operand.kind != Operand::Kind::pair) return;
  for (const Operand& part : operand.parts) add_registers(part, registers);
}

Followers followers_of(const Function& function) {
  const auto count = static_cast<std::uint32_t>(function.statements.size());
  Followers followers(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Statement& statement = function.statements[i];
    const std::string_view base = base_of(statement);
    const bool leaves =
        base == "bra" || base == "brx" || base == "ret" || base == "exit" || base == "trap";
    if (!leaves || statement.guard >= 0) followers[i].push_back(i + 1);
    if (base == "ret" || base == "exit") followers[i].push_back(count);
    if (base != "bra" && base != "brx") continue;
    for (const Operand& operand : statement.operands) {
      if (operand.kind == Operand::Kind::label) {
        followers[i].push_back(static_cast<std::uint32_t>(operand.bits));
      } else if (operand.kind == Operand::Kind::targets) {
        const auto& list = function.target_lists[static_cast<std::size_t>(operand.index)];
        followers[i].insert(followers[i].end(), list.begin(), list.end());
      }
    }
  }
  return followers;
}

bool leads_to(const Function& function, std::size_t from, std::string_view base) {
  const Followers followers = followers_of(function);
  std::vector<bool> seen(followers.size() + 1);
  seen.back() = true;
  std::vector<std::size_t> open = {from};
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (const std::uint32_t next : followers[at]) {
      if (seen[next]) continue;
      if (base_of(function.statements[next]) == base) return true;
      seen[next] = true;
      open.push_back(next);
    }
  }
  return false;
}

std::vector<std::uint8_t> stages_of(const Function& function) {
  std::vector<std::uint8_t> of(function.statements.size());  // of each that begins one
  for (std::size_t i = 0; i < of.size(); ++i) {
    const auto marker = marker_of(function.statements[i]);
    if (!marker || marker->kind != Marker::Kind::phase) continue;
    of[i] = static_cast<std::uint8_t>(1 << static_cast<int>(marker->stage));
  }
  if (std::all_of(of.begin(), of.end(), [](std::uint8_t stage) { return stage == 0; })) return {};
  const auto join = [](std::uint8_t& state, std::uint8_t other) {
    const std::uint8_t before = state;
    state |= other;
    return state != before;
  };
  return carry(
      followers_of(function), before_stages,
      [&](std::uint32_t i, std::uint8_t state) { return of[i] != 0 ? of[i] : state; }, join);
}

std::vector<Definition> definitions_of(const Function& function, std::uint32_t statement, int reg) {
  const Followers followers = followers_of(function);
  Followers before(followers.size() + 1);
  for (std::uint32_t i = 0; i < followers.size(); ++i) {
    for (const std::uint32_t next : followers[i]) before[next].push_back(i);
  }
  std::set<std::pair<std::uint32_t, int>> found, asked;
  std::vector<std::pair<std::uint32_t, int>> open = {{statement, reg}};
  while (!open.empty()) {
    const auto [at, wanted] = open.back();
    open.pop_back();
    for (const std::uint32_t i : before[at]) {
      if (!asked.insert({i, wanted}).second) continue;
      const Statement& one = function.statements[i];
      const std::vector<int> results = results_of(one);
      const bool assigns = std::find(results.begin(), results.end(), wanted) != results.end();
      if (!assigns || one.guard >= 0 || is_marker(one)) open.emplace_back(i, wanted);
      if (!assigns || is_marker(one)) continue;
      const std::string_view base = base_of(one);
      std::vector<int> sources;
      if (base == "mov" || base == "cvt") {
        for (std::size_t k = 1; k < one.operands.size(); ++k) {
          add_registers(one.operands[k], sources);
        }
      }
      for (const int source : sources) open.emplace_back(i, source);
      if (sources.empty()) found.insert({i, wanted});
    }
  }
  std::vector<Definition> definitions;
  for (const auto& [at, what] : found) definitions.push_back({at, what});
  return definitions;
}

std::vector<bool> copies_of_accumulators(const Function& function) {
  const auto& statements = function.statements;
  std::vector<bool> copies(statements.size());
  std::vector<bool> holds(static_cast<std::size_t>(function.register_count()));
  std::vector<int> open;
  const auto reach = [&](const Statement& statement) {
    for (const int reg : results_of(statement)) {
      if (!holds[static_cast<std::size_t>(reg)]) open.push_back(reg);
      holds[static_cast<std::size_t>(reg)] = true;
    }
  };
  for (const Statement& statement : statements) {
    if (is_product(statement)) reach(statement);
  }
  if (open.empty()) return copies;
  std::map<int, std::vector<std::size_t>> readers;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    for (const int reg : copied_by(statements[i])) readers[reg].push_back(i);
  }
  while (!open.empty()) {
    const int reg = open.back();
    open.pop_back();
    for (const std::size_t i : readers[reg]) {
      copies[i] = true;
      reach(statements[i]);
    }
  }
  return copies;
}

void demand_no_products_in_flight(const Module& module, const Function& function) {
  const auto& statements = function.statements;
  const auto any = [&](auto&& holds) {
    return std::any_of(statements.begin(), statements.end(), holds);
  };
  if (!any(is_product) || !any([](const Statement& s) { return is_marker(s); })) return;
  // By register: how many groups were committed since its product was issued, itself counted.
  using InFlight = std::map<int, int>;
  const auto step = [&](std::uint32_t i, InFlight state) {
    const Statement& statement = statements[i];
    if (is_product(statement)) {
      for (const int reg : results_of(statement)) state[reg] = 0;
    } else if (statement.opcode.starts_with("wgmma.commit_group")) {
      for (auto& [reg, groups] : state) ++groups;
    } else if (statement.opcode.starts_with("wgmma.wait_group")) {
      const auto pending = static_cast<int>(statement.operands.at(0).bits);
      std::erase_if(state, [&](const auto& one) { return one.second > pending; });
    } else if (base_of(statement) == "mov" && statement.operands.size() == 2) {
      const std::vector<int> to = results_of(statement), from = copied_by(statement);
      const auto held = from.empty() ? state.end() : state.find(from[0]);
      for (const int reg : to) {
        if (held == state.end()) {
          state.erase(reg);
        } else {
          state[reg] = held->second;
        }
      }
    }
    return state;
  };
  const auto join = [](InFlight& state, const InFlight& other) {
    bool grown = false;
    for (const auto& [reg, groups] : other) {
      const auto [at, is_new] = state.emplace(reg, groups);
      grown = grown || is_new || groups < at->second;
      at->second = std::min(at->second, groups);
    }
    return grown;
  };
  const std::vector<InFlight> states = carry(followers_of(function), InFlight{}, step, join);
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const auto marker = marker_of(statements[i]);
    if (!marker || !has_value(*marker)) continue;
    const Operand& value = statements[i].operands.back();
    if (value.kind != Operand::Kind::reg || !states[i].contains(value.index)) continue;
    throw UsageError(
        module.name + ":" + std::to_string(statements[i].line) + ": " +
        printable(statements[i].opcode, 60) + " at " +
        source_line(module.files, module.locations, statements[i].location,
                    module.name + ":" + std::to_string(statements[i].line)) +
        " names an accumulator of a wgmma.mma_async that is still in flight: its value is not "
        "there yet. Put the marker behind the wgmma.wait_group that waits for the product");
  }
}

}  // namespace lanescope::ptx

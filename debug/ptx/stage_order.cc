#include "debug/ptx/stage_order.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "debug/ptx/assigned_values.h"
#include "debug/ptx/control_flow.h"
#include "debug/ptx/number_roles.h"

namespace lanescope::ptx {

void give_by_order(const Function& function, std::vector<std::uint8_t>& of) {
  const auto for_each = [&](const auto& what) {
    for (std::size_t i = 0; i < function.statements.size(); ++i) {
      if (takes_operands(function.statements[i])) what(i, function.statements[i]);
    }
  };
  std::size_t first = 0, last = 0, last_product = 0;
  bool is_known = false;
  for_each([&](std::size_t i, const Statement& statement) {
    if (base_of(statement) == "ex2") {
      if (last == 0) first = i;
      last = i;
    }
    if (!multiplies_matrices(statement)) return;
    last_product = i;
    is_known = is_known || of[i] != 0;
  });
  if (is_known || last == 0) return;
  for_each([&](std::size_t i, const Statement& statement) {
    if (of[i] != 0) return;
    if (base_of(statement) == "wmma") {
      of[i] = static_cast<std::uint8_t>(bit_if(i < first, Stage::qk) | bit_if(i > last, Stage::pv));
    } else if (i > last && i < last_product) {
      const bool is_number =
          reads_memory(statement) || computes(statement) || stores_to_shared(statement);
      of[i] = bit_if(is_number, Stage::pv);
    }
  });
}

void give_to_barriers(const Function& function, std::vector<std::uint8_t>& of) {
  std::uint8_t before = 0;
  std::vector<std::size_t> open, turns;
  bool waited = false;
  for (std::size_t i = 0; i < function.statements.size(); ++i) {
    const Statement& statement = function.statements[i];
    const std::string_view base = base_of(statement);
    if (is_one_of(base, {"ret", "exit", "bra"}) && statement.guard < 0) {
      before = 0;
      open.clear();
      turns.clear();
      waited = false;
    } else if ((base == "bar" || base == "barrier") && !statement.operands.empty()) {
      of[i] = before;
      if (before == 0) open.push_back(i);
      if (waited && statement.operands.size() > 1) turns.push_back(i);
    } else if (of[i] != 0) {
      // What gives a place back is over: a barrier behind it lets something else begin.
      const bool releases =
          base == "mbarrier" && statement.opcode.find(".arrive") != std::string::npos;
      before = releases ? 0 : of[i];
      waited = base == "mbarrier" && statement.opcode.find("wait") != std::string::npos;
      if (of[i] != bit_of(Stage::load)) {
        for (const std::size_t turn : std::exchange(turns, {})) of[turn] = of[i];
      }
      for (const std::size_t barrier : std::exchange(open, {})) of[barrier] = of[i];
    }
  }
}

}  // namespace lanescope::ptx

#include "debug/ptx/number_part.h"

#include <string_view>
#include <vector>

#include "debug/ptx/control_flow.h"
#include "debug/ptx/marker.h"

namespace lanescope::ptx {

Part part_of(const Function& function, const NumberRoles& roles) {
  bool has_scores = false, shares_scores = false;
  for (const Statement& statement : function.statements) {
    if (is_marker(statement) || statement.operands.empty() || !reads_memory(statement)) continue;
    std::vector<int> read;
    add_registers(statement.operands.front(), read);
    const unsigned goals = roles.goals_of(read);
    has_scores = has_scores || (goals & NumberRoles::exponential_of_product) != 0;
    const bool shared = statement.opcode.find(".shared") != std::string_view::npos;
    shares_scores = shares_scores || (shared && (goals & NumberRoles::exponential) != 0);
  }
  if (has_scores || (shares_scores && roles.multiplies())) return Part::attention;
  if (roles.has_powers()) {
    if (roles.multiplies_narrow()) return Part::attention;
    if (roles.weighs()) return roles.multiplies() ? Part::attention : Part::combine;
    return roles.multiplies() ? Part::other : Part::softmax;
  }
  return roles.multiplies_wide() ? Part::values : Part::other;
}

}  // namespace lanescope::ptx

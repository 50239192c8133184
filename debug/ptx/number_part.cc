#include "debug/ptx/number_part.h"

#include <string_view>
#include <vector>

#include "debug/ptx/control_flow.h"

namespace lanescope::ptx {

namespace {

/// What a function does with memory, as its part of attention shows.
struct Uses {
  bool has_scores = false;      ///< products of what it reads go into 2^x
  bool shares_scores = false;   ///< what it reads of shared memory goes into 2^x
  bool keeps_products = false;  ///< products of what it reads go into shared memory
  bool keeps_weights = false;   ///< powers of two do
  bool has_locals = false;      ///< it reads registers that lie in memory: nothing is known of them
};

Uses uses_of(const Function& function, const NumberRoles& roles) {
  Uses uses;
  for (const Statement& statement : function.statements) {
    if (!takes_operands(statement)) continue;
    std::vector<int> numbers;
    if (stores_to_shared(statement)) {
      add_registers(statement.operands.back(), numbers);
      uses.keeps_weights |= roles.origins_of(numbers) == NumberRoles::power;
    }
    if (!reads_memory(statement)) continue;
    const auto is_of = [&](const char* space) {
      return statement.opcode.find(space) != std::string_view::npos;
    };
    add_registers(statement.operands.front(), numbers);
    const unsigned goals = roles.goals_of(numbers);
    uses.has_scores |= (goals & NumberRoles::exponential_of_product) != 0;
    uses.shares_scores |= is_of(".shared") && (goals & NumberRoles::exponential) != 0;
    uses.keeps_products |= (goals & NumberRoles::kept_of_product) != 0;
    uses.has_locals |= is_of(".local");
  }
  return uses;
}

}  // namespace

Part part_of(const Function& function, const NumberRoles& roles) {
  const Uses uses = uses_of(function, roles);
  // Weights that go through shared memory to what they weigh.
  if (uses.keeps_weights && roles.multiplies() && !uses.has_scores && !uses.keeps_products &&
      !uses.has_locals && !roles.multiplies_narrow()) {
    return Part::combine;
  }
  if (uses.has_scores || (uses.shares_scores && roles.multiplies())) return Part::attention;
  if (roles.has_powers()) {
    if (roles.multiplies_narrow()) return Part::attention;
    if (roles.weighs()) return roles.multiplies() ? Part::attention : Part::combine;
    return roles.multiplies() ? Part::other : Part::softmax;
  }
  return roles.multiplies_wide() ? Part::values : Part::other;
}

}  // namespace lanescope::ptx

#include "debug/ptx/number_roles.h"

#include <algorithm>
#include <initializer_list>

#include "debug/ptx/control_flow.h"
#include "debug/ptx/marker.h"

namespace lanescope::ptx {
namespace {

/// Numbers pass through it: sums, maxima, choices, other lanes' and other forms of them.
bool passes_numbers(const Statement& statement) {
  const std::string_view base = base_of(statement);
  const bool is_sum = is_one_of(base, {"add", "sub", "max", "min", "neg", "abs", "tanh"});
  if (is_sum) return is_real(statement.opcode);
  if (makes_exponent(statement)) return false;
  return is_one_of(base, {"mov", "cvt", "selp", "prmt", "shfl", "and", "or", "shl", "shr"});
}

/// Integers pass through it on their way to an address.
bool passes_indices(const Statement& statement) {
  return !is_real(statement.opcode) &&
         is_one_of(base_of(statement),
                   {"mov", "add", "sub", "mul", "mad", "div", "rem", "shl", "shr", "and", "or",
                    "cvt", "cvta", "selp", "min", "max", "bfe", "shfl"});
}

/// It reads global memory, or copies from it: its last address says where.
bool reads_global(std::string_view opcode) {
  const bool reads = opcode.starts_with("ld.global") || opcode.starts_with("cp.async");
  return reads && opcode.find(".global") != opcode.npos &&
         opcode.find(".global.shared") == opcode.npos;
}

/// Its second operand divides the first, or its only one is what is divided by or the logarithm is
/// taken of.
bool divides(std::string_view base) { return is_one_of(base, {"div", "rcp", "lg2"}); }

/// Of numbers of 16 bits or fewer: read as such, or made wider.
bool is_narrow(const Statement& statement) {
  const std::string_view opcode = statement.opcode, last = opcode.substr(opcode.rfind('.') + 1);
  if (reads_memory(statement)) return is_one_of(last, {"b16", "u16", "s16", "b8", "u8"});
  return base_of(statement) == "cvt" && is_one_of(last, {"f16", "bf16", "e4m3x2", "e5m2x2"});
}

}  // namespace

bool is_one_of(std::string_view base, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), base) != names.end();
}

bool makes_exponent(const Statement& statement) {
  const Operand& by = statement.operands.back();
  return base_of(statement) == "shl" && by.kind == Operand::Kind::integer && by.bits == 23;
}

bool is_real(std::string_view opcode) {
  return opcode.find(".f") != opcode.npos || opcode.find(".bf") != opcode.npos;
}

bool multiplies_matrices(const Statement& statement) {
  return base_of(statement) == "mma" || statement.opcode.find(".mma") != statement.opcode.npos;
}

bool computes(const Statement& statement) {
  return multiplies_matrices(statement) ||
         (is_real(statement.opcode) && base_of(statement) != "mov");
}

bool takes_operands(const Statement& statement) {
  return !is_marker(statement) && !statement.operands.empty();
}

bool reads_memory(const Statement& statement) {
  const std::string_view opcode = statement.opcode;
  if (opcode.starts_with("ldmatrix") || opcode.starts_with("wmma.load")) return true;
  return is_one_of(base_of(statement), {"ld", "ldu"}) && opcode.find(".param") == opcode.npos;
}

bool stores_to_shared(const Statement& statement) {
  return statement.opcode.starts_with("st.shared") || base_of(statement) == "stmatrix";
}

bool sends_to_block(const Statement& statement) {
  return statement.opcode.starts_with("st.async") || statement.opcode.starts_with("red.async");
}

bool stores_result(const Statement& statement) {
  return base_of(statement) == "st" && statement.opcode.find(".global") != std::string_view::npos;
}

NumberRoles::NumberRoles(const Function& function)
    : function_(function),
      is_target_(function.statements.size() + 1),
      origins_(static_cast<std::size_t>(function.register_count())),
      goals_(origins_.size()) {
  for (const auto& list : function.target_lists) {
    for (const std::uint32_t target : list) is_target_[target] = true;
  }
  for (const Statement& statement : function.statements) {
    for (const Operand& operand : statement.operands) {
      if (operand.kind == Operand::Kind::label) is_target_[operand.bits] = true;
    }
    if (is_marker(statement) || statement.operands.size() < 2) continue;
    Step step{.statement = &statement};
    add_registers(statement.operands.front(), step.to);
    for (std::size_t i = 1; i < statement.operands.size(); ++i) {
      add_registers(statement.operands[i], step.from);
      step.operand.resize(step.from.size(), i);
      if (!reads_global(statement.opcode) || statement.operands[i].kind != Operand::Kind::address) {
        continue;
      }
      for (const Operand& part : statement.operands[i].parts)
        add_registers(part, step.from_address);
    }
    step_of_.emplace(&statement, steps_.size());
    steps_.push_back(step);
  }
  while (spread_forwards()) {
  }
  for (const Step& step : steps_) note_products(step);
  while (spread_backwards()) {
  }
}

std::uint8_t NumberRoles::origins_of(const std::vector<int>& registers) const {
  std::uint8_t all = 0;
  for (const int reg : registers) all |= origin(reg);
  return all;
}

std::uint8_t NumberRoles::origins_at(std::size_t statement, int reg) const {
  for (std::size_t i = statement; i-- > 0 && !is_target_[i + 1];) {
    const Statement& before = function_.statements[i];
    const auto step = step_of_.find(&before);
    if (step == step_of_.end()) continue;
    const Step& made = steps_[step->second];
    if (std::ranges::find(made.to, reg) == made.to.end()) continue;
    return before.guard < 0 ? made_by(made) : origin(reg);
  }
  return origin(reg);
}

std::uint16_t NumberRoles::goals_of(const std::vector<int>& registers) const {
  std::uint16_t all = 0;
  for (const int reg : registers) all |= goals_[static_cast<std::size_t>(reg)];
  return all;
}

bool NumberRoles::is_factor(const Step& step, std::size_t i) {
  const std::string_view base = base_of(*step.statement);
  return (base == "mul" || base == "fma") && is_real(step.statement->opcode) && step.operand[i] < 3;
}

/// The origins of what a statement makes.
std::uint8_t NumberRoles::made_by(const Step& step) const {
  const Statement& statement = *step.statement;
  const std::string_view base = base_of(statement);
  if (base == "ex2" || makes_exponent(statement)) return power;
  if (reads_memory(statement)) {
    return static_cast<std::uint8_t>(memory | (is_narrow(statement) ? narrow : 0));
  }
  const bool is_product = base == "mul" || base == "fma" || multiplies_matrices(statement);
  if (!passes_numbers(statement) && !is_product && !divides(base)) return 0;
  std::uint8_t made = origins_of(step.from);
  // Tiles in shared memory may be named by descriptors.
  if (multiplies_matrices(statement)) made |= memory;
  if ((made & memory) != 0 && is_narrow(statement)) made |= narrow;
  if (made != 0 && base == "max" && is_real(statement.opcode)) made |= top;
  if ((made & (memory | power)) != 0 && divides(base)) made |= quotient;
  return made;
}

bool NumberRoles::spread_forwards() {
  bool grew = false;
  for (const Step& step : steps_) {
    const std::uint8_t made = made_by(step);
    for (const int reg : step.to) {
      std::uint8_t& known = origins_[static_cast<std::size_t>(reg)];
      grew = grew || (known | made) != known;
      known |= made;
    }
  }
  return grew;
}

/// Which kinds of numbers a statement multiplies by each other.
void NumberRoles::note_products(const Step& step) {
  has_powers_ = has_powers_ || base_of(*step.statement) == "ex2";
  multiplies_narrow_ = multiplies_narrow_ || multiplies_matrices(*step.statement);
  if (step.from.size() < 2 || !is_factor(step, 0) || !is_factor(step, 1)) return;
  const std::uint8_t one = origin(step.from[0]), other = origin(step.from[1]);
  // A number of softmax's own is divided by the sum: that weighs nothing.
  const auto is_weight = [](std::uint8_t roles) { return (roles & (power | quotient)) == power; };
  weighs_ = weighs_ || (is_weight(one) && (other & memory) != 0) ||
            (is_weight(other) && (one & memory) != 0);
  if ((one & other & memory) == 0) return;
  multiplies_ = multiplies_ || ((one | other) & (power | quotient)) == 0;
  multiplies_narrow_ = multiplies_narrow_ || (one & other & narrow) != 0;
  multiplies_wide_ = multiplies_wide_ || ((one ^ other) & narrow) != 0;
}

/// What the registers that a statement reads lead to, from what those lead to that it writes.
bool NumberRoles::spread_backwards() {
  bool grew = false;
  const auto lead = [&](int reg, int goals) {
    std::uint16_t& known = goals_[static_cast<std::size_t>(reg)];
    grew = grew || (known | goals) != known;
    known = static_cast<std::uint16_t>(known | goals);
  };
  for (std::size_t left = steps_.size(); left-- > 0;) {
    const Step& step = steps_[left];
    const Statement& statement = *step.statement;
    const std::string_view base = base_of(statement);
    constexpr int lasting = exponential | result | divisor | kept;
    const int behind = goals_of(step.to);
    const int products = exponential_of_product | result_of_product | kept_of_product;
    const int behind_product = (behind & products) | (behind & kept ? kept_of_product : 0) |
                               (behind & exponential ? exponential_of_product : 0) |
                               (behind & result ? result_of_product : 0);
    const int weighed = behind & (kept | kept_weighed | kept_locally) ? kept_weighed : 0;
    // The last operand of a product of matrices is added to it.
    const auto is_weighed = [&](std::size_t i) {
      for (std::size_t other = 0; other < step.from.size(); ++other) {
        const bool factors = step.operand[i] < 3 && step.operand[other] < 3;
        if (factors && step.operand[other] != step.operand[i] &&
            (origin(step.from[other]) & power) != 0) {
          return true;
        }
      }
      return false;
    };
    const bool stores_shared = stores_to_shared(statement);
    const bool stores_local = statement.opcode.starts_with("st.local");
    for (const int reg : step.from_address) lead(reg, address);
    const int index = passes_indices(statement) ? behind & address : 0;
    for (std::size_t i = 0; i < step.from.size(); ++i) {
      const int reg = step.from[i];
      if (base == "ex2") lead(reg, exponential);
      if (stores_result(statement)) lead(reg, result);
      if (stores_shared) lead(reg, kept);
      if (stores_local) lead(reg, kept_locally);
      if (passes_numbers(statement)) lead(reg, behind);
      lead(reg, index);
      if (multiplies_matrices(statement)) {
        lead(reg, behind_product | (step.operand[i] == 3 ? behind & kept : 0) |
                      (is_weighed(i) ? weighed : 0));
      }
      if (divides(base) && is_real(statement.opcode)) {
        lead(reg, base == "div" && step.operand[i] == 1 ? behind & lasting : divisor);
      }
      if ((base != "mul" && base != "fma") || !is_real(statement.opcode)) continue;
      if (!is_factor(step, i)) {
        lead(reg, behind);
        continue;
      }
      const bool multiplied =
          step.from.size() > 1 && is_factor(step, 1 - std::min(i, std::size_t{1}));
      const std::uint8_t other = multiplied ? origin(step.from[1 - i]) : std::uint8_t{0};
      // What becomes a divisor is a sum of weights, which a power takes to another maximum.
      const bool is_rescaled = other == power && (behind & divisor) != 0;
      const bool is_product = other != 0 && (other & quotient) == 0 && !is_rescaled;
      lead(reg, is_product ? behind_product | ((other & power) != 0 ? weighed : 0) : behind);
    }
  }
  return grew;
}

}  // namespace lanescope::ptx

#include "debug/ptx/number_stages.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "debug/ptx/assigned_values.h"
#include "debug/ptx/control_flow.h"
#include "debug/ptx/marker.h"
#include "debug/ptx/number_part.h"
#include "debug/ptx/number_roles.h"
#include "debug/ptx/stage_order.h"
#include "reference/site.h"

namespace lanescope::ptx {
namespace {

/// An asynchronous copy from global to shared memory: its destination is named first.
bool copies_to_shared(std::string_view opcode) {
  if (!opcode.starts_with("cp.async") || opcode.find(".global") == opcode.npos) return false;
  return opcode.find(".shared") < opcode.find(".global");
}

/// Tiles of O on their way out.
bool copies_from_shared(std::string_view opcode) {
  const bool is_bulk = opcode.starts_with("cp.async.bulk") || opcode.starts_with("cp.reduce.async");
  return is_bulk && opcode.find(".global.shared") != opcode.npos;
}

/// Waits for such copies, and what else is done with the mbarriers that they complete on.
bool awaits_copies(std::string_view opcode) {
  return opcode.starts_with("mbarrier.") || opcode.starts_with("cp.async.mbarrier.") ||
         opcode.starts_with("cp.async.commit_group") || opcode.starts_with("cp.async.wait_");
}

/// Of what an earlier kernel left, in a function that takes powers of it and multiplies nothing.
constexpr std::uint8_t softmax_or_combine = bit_of(Stage::softmax) | bit_of(Stage::combine);

/// The stages of a function's statements, by what becomes of their numbers.
class Stages {
 public:
  explicit Stages(const Function& function)
      : function_(function),
        roles_(function),
        part_(part_of(function, roles_)),
        of_(function.statements.size()) {
    for_each([&](std::size_t i, const Statement& statement) {
      if (base_of(statement) == "ex2" && first_power_ == 0) first_power_ = i;
    });
  }

  std::vector<std::uint8_t> find() {
    Assignments assignments;
    bool copies = false;
    for_each([&](std::size_t, const Statement& statement) {
      for (const int result : results_of(statement)) assignments[result].push_back(&statement);
      copies = copies || copies_to_shared(statement.opcode);
    });
    for_each([&](std::size_t i, const Statement& statement) {
      if (copies && (copies_to_shared(statement.opcode) || awaits_copies(statement.opcode))) {
        of_[i] = bit_of(Stage::load);
      } else if (copies_from_shared(statement.opcode)) {
        of_[i] = part_ == Part::attention ? bit_of(Stage::epilogue) : of_result(assignments, i);
      } else if (reads_memory(statement)) {
        of_[i] = of_read(i);
        // What others of the cluster have summed up meets here.
        const bool behind_scores = of_[i] != 0 && of_[i] != bit_of(Stage::qk);
        if (behind_scores && is_of_other_block(assignments, statement)) {
          of_[i] = bit_of(Stage::combine);
        }
      } else if (sends_to_block(statement) ||
                 (stores_to_shared(statement) && is_of_other_block(assignments, statement))) {
        of_[i] = of_sent(i);
      } else if (stores_to_shared(statement)) {
        of_[i] = of_shared_store(assignments, i);
      } else if (stores_result(statement)) {
        of_[i] = of_result(assignments, i);
      } else if (computes(statement)) {
        const std::vector<int> results = results_of(statement);
        const unsigned goals =
            multiplies_matrices(statement) ? goals_of_most(results) : roles_.goals_of(results);
        of_[i] = of_number(results, goals, base_of(statement), is_rescaled(statement));
        if (of_[i] == 0 && part_ == Part::attention) of_[i] = of_kept_product(i, goals);
      }
    });
    if (part_ == Part::attention) give_by_order(function_, of_);
    give_to_barriers(function_, of_);
    return std::move(of_);
  }

 private:
  template <class Do>
  void for_each(const Do& what) const {
    for (std::size_t i = 0; i < function_.statements.size(); ++i) {
      if (takes_operands(function_.statements[i])) what(i, function_.statements[i]);
    }
  }
  static std::vector<int> results_of(const Statement& statement) {
    std::vector<int> results;
    add_registers(statement.operands.front(), results);
    return results;
  }
  /// Of a product that goes into shared memory before any power of two: a score.
  std::uint8_t of_kept_product(std::size_t at, unsigned goals) const {
    const bool is_kept = (goals & NumberRoles::kept_of_product) != 0;
    return bit_if(is_kept && at < first_power_, Stage::qk);
  }

  std::uint8_t of_read(std::size_t at) const {
    const Statement& statement = function_.statements[at];
    const unsigned roles = roles_.goals_of(results_of(statement));
    const bool is_shared = statement.opcode.find(".shared") != std::string_view::npos;
    const bool is_index = is_shared && roles == NumberRoles::address;
    const unsigned goals = roles & ~static_cast<unsigned>(NumberRoles::address);
    if (part_ == Part::combine) return bit_of(Stage::combine);
    if (part_ == Part::values) return bit_if(goals != 0, Stage::pv);
    if (part_ == Part::softmax && goals != 0) {
      return is_shared ? bit_of(Stage::softmax) : softmax_or_combine;
    }
    if ((goals & NumberRoles::exponential) != 0) return bit_of(Stage::softmax);
    if ((goals & NumberRoles::exponential_of_product) != 0) return bit_of(Stage::qk);
    if (part_ != Part::attention) return 0;
    if (is_index) return bit_of(Stage::load);
    if ((goals & NumberRoles::result_of_product) != 0) return bit_of(Stage::pv);
    if ((goals & NumberRoles::divisor) != 0) return bit_of(Stage::softmax);
    if ((goals & NumberRoles::kept_weighed) != 0) return bit_of(Stage::pv);
    if (is_shared && (goals & NumberRoles::result) != 0) return bit_of(Stage::epilogue);
    const bool is_global = statement.opcode.find(".global") != std::string_view::npos;
    if (is_global && goals == NumberRoles::kept) {
      return bit_of(goes_into_maximum(results_of(statement)) ? Stage::softmax : Stage::load);
    }
    return of_kept_product(at, goals);
  }

  /// Whether a maximum is taken of what a register holds: scores that another kernel left.
  bool goes_into_maximum(const std::vector<int>& registers) const {
    return std::ranges::any_of(function_.statements, [&](const Statement& statement) {
      const bool is_maximum = base_of(statement) == "max" && is_real(statement.opcode);
      if (!is_maximum || !takes_operands(statement)) return false;
      std::vector<int> taken;
      for (std::size_t i = 1; i < statement.operands.size(); ++i) {
        add_registers(statement.operands[i], taken);
      }
      return std::ranges::find_first_of(taken, registers) != taken.end();
    });
  }

  unsigned origins_at(std::size_t at, const std::vector<int>& registers) const {
    unsigned origins = 0;
    for (const int reg : registers) origins |= roles_.origins_at(at, reg);
    return origins;
  }

  std::uint8_t of_shared_store(const Assignments& assignments, std::size_t at) const {
    const Statement& statement = function_.statements[at];
    if (part_ == Part::combine) return bit_of(Stage::combine);
    std::vector<int> stored;
    add_registers(statement.operands.back(), stored);
    if (stored.empty()) return 0;
    const unsigned origins = origins_at(at, stored);
    const std::uint8_t stage = stage_of_value(assignments, std::move(stored));
    constexpr unsigned weighed = NumberRoles::memory | NumberRoles::power;
    const bool sums_weights = stage == 0 && (origins & weighed) == NumberRoles::power;
    if (part_ == Part::attention && sums_weights) return bit_of(Stage::softmax);
    if (stage != 0 || part_ != Part::attention || (origins & weighed) != weighed) return stage;
    // Weighed sums on their way out.
    return bit_of((origins & NumberRoles::quotient) != 0 ? Stage::epilogue : Stage::pv);
  }

  /// Sums and maxima that another block of the cluster gets, as parts of its own.
  std::uint8_t of_sent(std::size_t at) const {
    std::vector<int> sent;
    for (const Operand& operand : function_.statements[at].operands) {
      if (operand.kind != Operand::Kind::address) add_registers(operand, sent);
    }
    // Weighed sums have weights in them as well.
    const unsigned made = NumberRoles::power | NumberRoles::top | NumberRoles::quotient;
    return bit_if((origins_at(at, sent) & made) != 0, Stage::combine);
  }

  std::uint8_t of_result(const Assignments& assignments, std::size_t at) const {
    std::vector<int> stored;
    add_registers(function_.statements[at].operands.back(), stored);
    if (part_ == Part::combine) return bit_of(Stage::combine);
    if (part_ == Part::softmax) return bit_of(Stage::softmax);
    if (part_ == Part::values) return bit_of(Stage::pv);
    if (part_ != Part::attention) return 0;
    const unsigned origins = origins_at(at, stored);
    // An input as it was read: kept for later, as new keys are.
    const bool is_copy = stage_of_value(assignments, stored) == bit_of(Stage::load);
    if (is_copy) return bit_of(Stage::load);
    constexpr unsigned behind = NumberRoles::power | NumberRoles::quotient;
    const bool is_maximum = (origins & NumberRoles::top) != 0 && (origins & behind) == 0;
    // One that the block keeps there between tiles goes into other weights.
    if (is_maximum && leads_to(function_, at, "ex2")) return bit_of(Stage::softmax);
    return bit_if(origins != 0, Stage::epilogue);
  }

  /// Whether a power of two, and nothing else, is a factor: one that takes sums to another maximum.
  bool is_rescaled(const Statement& statement) const {
    const std::string_view base = base_of(statement);
    if (base != "mul" && base != "fma") return false;
    for (std::size_t i = 1; i < std::min<std::size_t>(3, statement.operands.size()); ++i) {
      std::vector<int> factor;
      add_registers(statement.operands[i], factor);
      if (!factor.empty() && roles_.origins_of(factor) == NumberRoles::power) return true;
    }
    return false;
  }

  /// Of what computes a number.
  std::uint8_t of_number(const std::vector<int>& results, unsigned goals, std::string_view base,
                         bool rescaled) const {
    const unsigned origins = roles_.origins_of(results);
    const auto has = [](unsigned roles, unsigned which) { return (roles & which) != 0; };
    if (part_ == Part::combine) return bit_of(Stage::combine);
    if (part_ == Part::softmax) return bit_of(Stage::softmax);
    if (part_ == Part::values) return bit_if(has(origins, NumberRoles::memory), Stage::pv);
    if (part_ != Part::attention) return 0;
    if (base == "ex2") return bit_of(Stage::softmax);
    if (has(goals, NumberRoles::exponential)) {
      return bit_of(has(origins, NumberRoles::top) ? Stage::softmax : Stage::qk);
    }
    if (has(goals, NumberRoles::exponential_of_product)) return bit_of(Stage::qk);
    // A block that goes on to other rows has what it divided before in the same accumulators.
    const bool is_product = is_one_of(base, {"wgmma", "mma", "wmma"});
    if (has(origins, NumberRoles::quotient) && !is_product && !rescaled) {
      return bit_of(Stage::epilogue);
    }
    if (has(goals, NumberRoles::divisor)) return bit_of(Stage::softmax);
    if (has(origins, NumberRoles::power) && !has(origins, NumberRoles::memory)) {
      return bit_of(Stage::softmax);
    }
    const bool of_result = has(goals, NumberRoles::result | NumberRoles::result_of_product);
    const bool is_kept = has(goals, NumberRoles::kept) && has(origins, NumberRoles::power);
    return bit_if((of_result && origins != 0) || is_kept, Stage::pv);
  }

  /// The registers of an accumulator have one role: what few of them lead to is of what those hold
  /// at other times, as the zero that all begin with.
  unsigned goals_of_most(const std::vector<int>& registers) const {
    unsigned goals = 0;
    for (unsigned goal = 1; goal <= NumberRoles::kept_weighed; goal *= 2) {
      const auto leads = std::count_if(registers.begin(), registers.end(), [&](int reg) {
        return (roles_.goals_of({reg}) & goal) != 0;
      });
      if (2 * leads > std::ssize(registers)) goals |= goal;
    }
    return goals;
  }

  const Function& function_;
  NumberRoles roles_;
  Part part_;
  std::size_t first_power_ = 0;  ///< statement; 0: there is none
  std::vector<std::uint8_t> of_;
};

}  // namespace

std::vector<std::uint8_t> stages_by_numbers(const Function& function) {
  return Stages(function).find();
}

}  // namespace lanescope::ptx

#include "debug/ptx/access_stages.h"

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

bool is_real(std::string_view opcode) {
  return opcode.find(".f") != opcode.npos || opcode.find(".bf") != opcode.npos;
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
      const std::string_view base = base_of(*statement);
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

/// It makes the exponent of a float of an integer, as expf does with a part of its argument.
bool makes_exponent(const Statement& statement) {
  const Operand& by = statement.operands.back();
  return base_of(statement) == "shl" && by.kind == Operand::Kind::integer && by.bits == 23;
}

/// Numbers pass through it: sums, maxima, choices, other lanes' and other forms of them.
bool passes_numbers(const Statement& statement) {
  const std::string_view base = base_of(statement);
  const bool is_sum = is_one_of(base, {"add", "sub", "max", "min", "neg", "abs"});
  if (is_sum) return is_real(statement.opcode);
  if (makes_exponent(statement)) return false;
  return is_one_of(base, {"mov", "cvt", "selp", "prmt", "shfl", "and", "or", "shl", "shr"});
}

bool multiplies_matrices(const Statement& statement) {
  return base_of(statement) == "mma" || statement.opcode.find(".mma") != statement.opcode.npos;
}

bool reads_memory(const Statement& statement) {
  const std::string_view opcode = statement.opcode;
  if (opcode.starts_with("ldmatrix") || opcode.starts_with("wmma.load")) return true;
  return is_one_of(base_of(statement), {"ld", "ldu"}) && opcode.find(".param") == opcode.npos;
}

/// What becomes of numbers: for each register, the goals that some way of it leads to.
class Goals {
 public:
  enum Bit : std::uint8_t {
    exponential = 1,             ///< goes into 2^x
    exponential_of_product = 2,  ///< after a product with another number from memory
    result = 4,                  ///< goes into global memory
    result_of_product = 8,
  };

  explicit Goals(const Function& function)
      : goals_(static_cast<std::size_t>(function.register_count())) {
    varies_.resize(goals_.size());
    for (const Statement& statement : function.statements) {
      if (is_marker(statement) || statement.operands.size() < 2) continue;
      Step step{&statement, {}, {}};
      add_registers(statement.operands.front(), step.to);
      for (std::size_t i = 1; i < statement.operands.size(); ++i) {
        add_registers(statement.operands[i], step.from);
        step.operand.resize(step.from.size(), i);
      }
      steps_.push_back(step);
    }
    while (spread_forwards()) {
    }
    while (spread_backwards()) {
    }
  }

  std::uint8_t of(const std::vector<int>& registers) const {
    std::uint8_t all = 0;
    for (const int reg : registers) all |= goals_[static_cast<std::size_t>(reg)];
    return all;
  }
  /// Whether numbers from memory are multiplied by powers of two.
  bool weighs() const { return weighs_; }

 private:
  struct Step {
    const Statement* statement;
    std::vector<int> to, from;
    std::vector<std::size_t> operand = {};  ///< of each in `from`, its number
  };
  enum Origin : std::uint8_t { memory = 1, power = 2 };

  std::uint8_t origin(int reg) const { return varies_[static_cast<std::size_t>(reg)]; }
  bool is_factor(const Step& step, std::size_t i) const {
    const std::string_view base = base_of(*step.statement);
    return (base == "mul" || base == "fma") && is_real(step.statement->opcode) &&
           step.operand[i] < 3;
  }

  /// Which numbers come from memory, and which are powers of two.
  bool spread_forwards() {
    bool grew = false;
    for (const Step& step : steps_) {
      const std::string_view base = base_of(*step.statement);
      std::uint8_t made = reads_memory(*step.statement) ? memory : 0;
      if (base == "ex2") made = power;
      if (passes_numbers(*step.statement) || base == "mul" || base == "fma") {
        for (const int reg : step.from) made |= origin(reg);
      }
      for (const int reg : step.to) {
        std::uint8_t& known = varies_[static_cast<std::size_t>(reg)];
        grew = grew || (known | made) != known;
        known |= made;
      }
    }
    return grew;
  }

  /// What the registers that a statement reads lead to, from what those lead to that it writes.
  bool spread_backwards() {
    bool grew = false;
    const auto lead = [&](int reg, int goals) {
      std::uint8_t& known = goals_[static_cast<std::size_t>(reg)];
      grew = grew || (known | goals) != known;
      known = static_cast<std::uint8_t>(known | goals);
    };
    for (std::size_t left = steps_.size(); left-- > 0;) {
      const Step& step = steps_[left];
      const std::string_view base = base_of(*step.statement);
      const int behind = of(step.to), behind_product = (behind | behind << 1) & 0b1010;
      for (std::size_t i = 0; i < step.from.size(); ++i) {
        const int reg = step.from[i];
        if (base == "ex2") lead(reg, exponential);
        if (base == "st" && step.statement->opcode.find(".global") != std::string_view::npos) {
          lead(reg, result);
        }
        if (passes_numbers(*step.statement)) lead(reg, behind);
        if (multiplies_matrices(*step.statement)) lead(reg, behind_product);
        if (base != "mul" && base != "fma") continue;
        if (!is_factor(step, i)) {
          if (is_real(step.statement->opcode)) lead(reg, behind);
          continue;
        }
        const bool multiplied =
            step.from.size() > 1 && is_factor(step, 1 - std::min(i, std::size_t{1}));
        const std::uint8_t other = multiplied ? origin(step.from[1 - i]) : 0;
        lead(reg, other != 0 ? behind_product : behind);
        weighs_ = weighs_ || ((other & power) != 0 && (origin(reg) & memory) != 0);
      }
    }
    return grew;
  }

  std::vector<Step> steps_;
  std::vector<std::uint8_t> goals_, varies_;
  bool weighs_ = false;
};

/// The stages of statements that read memory.
void add_stages_of_reads(const Function& function, std::vector<std::uint8_t>& stages) {
  const Goals goals(function);
  std::vector<std::pair<std::size_t, std::uint8_t>> reads;
  bool has_scores = false;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Statement& statement = function.statements[i];
    if (is_marker(statement) || !reads_memory(statement) || statement.operands.empty()) continue;
    std::vector<int> results;
    add_registers(statement.operands.front(), results);
    reads.emplace_back(i, goals.of(results));
    has_scores = has_scores || (reads.back().second & Goals::exponential_of_product) != 0;
  }
  for (const auto& [i, leads] : reads) {
    // Without scores, exponentials that weigh sums may be those of a combine pass.
    if ((leads & Goals::exponential) != 0) {
      if (has_scores || !goals.weighs()) stages[i] = bit_of(Stage::softmax);
    } else if ((leads & Goals::exponential_of_product) != 0) {
      stages[i] = bit_of(Stage::qk);
    } else if (has_scores && (leads & Goals::result_of_product) != 0) {
      stages[i] = bit_of(Stage::pv);
    }
  }
}

}  // namespace

std::vector<std::uint8_t> stages_of_accesses(const Function& function) {
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
  add_stages_of_reads(function, stages);
  return stages;
}

}  // namespace lanescope::ptx

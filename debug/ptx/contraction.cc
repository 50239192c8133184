#include "debug/ptx/contraction.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "debug/ptx/decoder.h"
#include "debug/ptx/marker.h"

namespace lanescope::ptx {
namespace {

/// A sum or a product without a rounding modifier.
struct Rounded {
  Type type = Type::f32;
  bool ftz = false;
  friend bool operator==(const Rounded&, const Rounded&) = default;
};
std::optional<Rounded> rounded(const Statement& statement, bool may_saturate) {
  Modifiers modifiers(statement.opcode);
  Rounded result;
  result.ftz = modifiers.take("ftz");
  if (may_saturate) modifiers.take("sat");
  const std::optional<Type> type = modifiers.take_type();
  const bool is_reg =
      statement.operands.size() == 3 && statement.operands[0].kind == Operand::Kind::reg;
  if (!type || !is_float(*type) || bits_of(*type) < 16 || !modifiers.left().empty() || !is_reg) {
    return std::nullopt;
  }
  result.type = *type;
  return result;
}

/// Where a register stands.
struct Occurrence {
  std::uint32_t statement;
  int operand;  ///< −1: the guard
  bool nested;  ///< in a vector, an address, ...
};

struct Use {
  std::uint32_t sum;
  std::size_t operand;
  bool negated;
};

class Finder {
 public:
  Finder(const Function& function, bool injects)
      : function_(function),
        occurrences_(static_cast<std::size_t>(function.register_count())),
        blocks_(function.statements.size()) {
    for (std::uint32_t i = 0; i < function.statements.size(); ++i) {
      if (!is_marker(function.statements[i])) {
        note_registers(i);
      } else if (injects && is_injection(function.statements[i])) {
        note(function.statements[i].operands.back(), i, 0, false);
      }
    }
    divide_into_blocks();
  }

  std::map<std::uint32_t, Contraction> find() {
    for (std::uint32_t i = 0; i < function_.statements.size(); ++i) {
      const Statement& statement = function_.statements[i];
      if (statement.guard >= 0 || base_of(statement) != "mul") continue;
      const std::optional<Rounded> product = rounded(statement, false);
      if (!product) continue;
      std::vector<Use> uses;
      if (gather(i, *product, statement.operands[0].index, false, uses) && !uses.empty() &&
          !is_twice_in_a_sum(uses)) {
        products_[i] = std::move(uses);
      }
    }
    // A product of which a sum takes the other one is none.
    while (drop_one()) {
    }
    std::map<std::uint32_t, Contraction> found;
    for (const auto& [product, uses] : products_) {
      for (const Use& use : uses) found[use.sum] = contraction(product, use);
    }
    return found;
  }

 private:
  static std::string_view base_of(const Statement& statement) {
    return statement.opcode.substr(0, statement.opcode.find('.'));
  }

  void note(const Operand& operand, std::uint32_t statement, int index, bool nested) {
    if (operand.kind == Operand::Kind::reg) {
      occurrences_[static_cast<std::size_t>(operand.index)].push_back({statement, index, nested});
    }
    for (const Operand& part : operand.parts) note(part, statement, index, true);
  }
  void note_registers(std::uint32_t i) {
    const Statement& statement = function_.statements[i];
    if (statement.guard >= 0) {
      occurrences_[static_cast<std::size_t>(statement.guard)].push_back({i, -1, false});
    }
    for (std::size_t k = 0; k < statement.operands.size(); ++k) {
      note(statement.operands[k], i, static_cast<int>(k), false);
    }
  }

  void divide_into_blocks() {
    std::set<std::uint64_t> targets;
    for (const Statement& statement : function_.statements) {
      for (const Operand& operand : statement.operands) {
        if (operand.kind == Operand::Kind::label) targets.insert(operand.bits);
      }
    }
    for (const auto& list : function_.target_lists) targets.insert(list.begin(), list.end());
    int block = 0;
    for (std::uint32_t i = 0; i < function_.statements.size(); ++i) {
      if (targets.contains(i)) ++block;
      blocks_[i] = block;
      const std::string_view base = base_of(function_.statements[i]);
      constexpr std::string_view ends[] = {"bra", "brx", "ret", "exit", "call"};
      if (std::find(std::begin(ends), std::end(ends), base) != std::end(ends)) ++block;
      if (base != "bra" || function_.statements[i].operands.empty()) continue;
      const Operand& target = function_.statements[i].operands[0];
      const bool is_back = target.kind == Operand::Kind::label && target.bits <= i;
      if (is_back) loops_.emplace_back(static_cast<std::uint32_t>(target.bits), i);
    }
  }

  /// Immediate numbers and the kernel's parameters, which instructions take as they lie in memory;
  /// also through mov and neg.
  bool is_constant(const Operand& factor) const {
    if (factor.kind != Operand::Kind::reg) return true;
    if (!is_defined_once(factor.index)) return false;
    const auto& all = occurrences(factor.index);
    const auto made =
        std::ranges::find_if(all, [](const Occurrence& at) { return at.operand == 0; });
    const Statement& statement = function_.statements[made->statement];
    if (made->nested || statement.guard >= 0) return false;
    const std::string_view base = base_of(statement);
    if (base == "ld") return function_.is_entry && statement.opcode.starts_with("ld.param");
    return (base == "mov" || base == "neg") && is_constant(statement.operands.back());
  }
  bool may_meet(std::uint32_t product, std::uint32_t use) const {
    if (blocks_[use] == blocks_[product]) return true;
    const auto& operands = function_.statements[product].operands;
    const auto is_left = [&](const auto& loop) {
      const auto is_in = [&](std::uint32_t i) { return loop.first <= i && i <= loop.second; };
      return is_in(product) && !is_in(use);
    };
    return (is_constant(operands[1]) || is_constant(operands[2])) &&
           std::ranges::none_of(loops_, is_left);
  }

  const std::vector<Occurrence>& occurrences(int reg) const {
    return occurrences_[static_cast<std::size_t>(reg)];
  }
  bool is_defined_once(int reg) const {
    return std::count_if(occurrences(reg).begin(), occurrences(reg).end(),
                         [](const Occurrence& o) { return o.operand == 0; }) == 1;
  }

  /// The sums that use `reg`, which holds the product or its negation. False where anything else
  /// uses it.
  bool gather(std::uint32_t product, const Rounded& kind, int reg, bool negated,
              std::vector<Use>& uses) const {
    if (!is_defined_once(reg)) return false;
    for (const Occurrence& at : occurrences(reg)) {
      if (at.operand == 0) continue;
      const Statement& statement = function_.statements[at.statement];
      if (at.nested || at.operand < 0 || !may_meet(product, at.statement)) return false;
      const std::string_view base = base_of(statement);
      if (base == "add" || base == "sub") {
        if (rounded(statement, true) != kind || !keeps_factors(product, at.statement)) return false;
        const auto operand = static_cast<std::size_t>(at.operand);
        uses.push_back({at.statement, operand, negated != (base == "sub" && operand == 2)});
        continue;
      }
      const bool is_mov = base == "mov", is_neg = base == "neg";
      if (!(is_mov || is_neg) || statement.guard >= 0 || statement.operands.size() != 2 ||
          statement.operands[0].kind != Operand::Kind::reg) {
        return false;
      }
      if (!gather(product, kind, statement.operands[0].index, negated != is_neg, uses)) {
        return false;
      }
    }
    return true;
  }

  /// Whether the factors are at the sum what they were at the product.
  bool keeps_factors(std::uint32_t product, std::uint32_t sum) const {
    if (sum < product) return false;
    const auto& operands = function_.statements[product].operands;
    return std::all_of(operands.begin() + 1, operands.end(), [&](const Operand& factor) {
      if (factor.kind != Operand::Kind::reg) return true;
      const auto& all = occurrences(factor.index);
      return std::none_of(all.begin(), all.end(), [&](const Occurrence& at) {
        return at.operand == 0 && at.statement >= product && at.statement < sum;
      });
    });
  }

  static bool is_twice_in_a_sum(const std::vector<Use>& uses) {
    std::set<std::uint32_t> sums;
    return !std::all_of(uses.begin(), uses.end(),
                        [&](const Use& use) { return sums.insert(use.sum).second; });
  }

  /// Removes the last product that one of its sums does not take. False where there is none.
  bool drop_one() {
    struct Choice {
      std::uint32_t product;
      std::size_t uses, operand;
    };
    std::map<std::uint32_t, Choice> taken;
    for (const auto& [product, uses] : products_) {
      for (const Use& use : uses) {
        const Choice mine{product, uses.size(), use.operand};
        const auto [at, is_new] = taken.try_emplace(use.sum, mine);
        if (is_new) continue;
        const Choice& other = at->second;
        if (std::pair(mine.uses, mine.operand) < std::pair(other.uses, other.operand)) {
          at->second = mine;
        }
      }
    }
    for (auto product = products_.rbegin(); product != products_.rend(); ++product) {
      const auto takes = [&](const Use& use) {
        return taken.at(use.sum).product == product->first;
      };
      if (std::all_of(product->second.begin(), product->second.end(), takes)) continue;
      products_.erase(std::next(product).base());
      return true;
    }
    return false;
  }

  Contraction contraction(std::uint32_t product, const Use& use) const {
    const bool subtracts = base_of(function_.statements[use.sum]) == "sub";
    return {product, 3 - use.operand, use.negated, subtracts && use.operand == 1};
  }

  const Function& function_;
  std::vector<std::vector<Occurrence>> occurrences_;            ///< by register
  std::vector<std::pair<std::uint32_t, std::uint32_t>> loops_;  ///< first and last statement
  std::vector<int> blocks_;                                     ///< basic block of each statement
  std::map<std::uint32_t, std::vector<Use>> products_;
};

}  // namespace

std::map<std::uint32_t, Contraction> find_contractions(const Function& function, bool injects) {
  return Finder(function, injects).find();
}

}  // namespace lanescope::ptx

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "debug/ptx/program.h"

namespace lanescope::ptx {

/// An instruction that a number went through that is not finite.
struct NumberStep {
  std::uint32_t instruction = 0;  ///< in Program::code
  int thread = 0;
  float value = 0;
  std::uint64_t address = 0;  ///< of global memory, where it was read from that; else 0
};

/// Of one block: which way numbers that are not finite have come, through registers and shared
/// memory.
class NumberOrigins {
 public:
  void begin() {
    nodes_.clear();
    shared_.clear();
  }
  /// One step more on the way to `from` (0: there is none); 0 where there are too many.
  std::uint32_t add(const NumberStep& step, std::uint32_t from);
  float value(std::uint32_t node) const { return nodes_[node - 1].step.value; }
  bool is_at(std::uint32_t node, std::uint32_t instruction) const {
    return node != 0 && nodes_[node - 1].step.instruction == instruction;
  }
  /// The instruction that made the NaN that has come to `node`, of numbers that are none.
  std::uint32_t maker_of(std::uint32_t node) const;
  bool is_full() const { return nodes_.size() >= most; }
  /// The last step first.
  std::vector<NumberStep> way_to(std::uint32_t node) const;

  /// A word of shared memory, by its offset, holds such a number (0: another).
  void store(std::size_t offset, std::uint32_t node);
  std::uint32_t load(std::size_t offset) const;
  bool any_stored() const { return !shared_.empty(); }

 private:
  static constexpr std::size_t most = 1 << 20;

  struct Node {
    NumberStep step;
    std::uint32_t from;
  };
  std::vector<Node> nodes_;
  std::unordered_map<std::size_t, std::uint32_t> shared_;  ///< by word
};

/// The origins of a register's lanes.
using RegisterOrigins = std::array<std::uint32_t, 32>;

/// Says in the instruction which numbers it makes of which, as far as they are followed.
void describe_numbers(Instruction& in, std::string_view opcode, std::size_t operands);

}  // namespace lanescope::ptx

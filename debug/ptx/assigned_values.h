#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "debug/ptx/syntax.h"
#include "reference/site.h"

namespace lanescope::ptx {

/// A bit for each stage.
constexpr std::uint8_t bit_of(Stage stage) {
  return static_cast<std::uint8_t>(1 << static_cast<int>(stage));
}
inline std::uint8_t bit_if(bool holds, Stage stage) {
  return holds ? bit_of(stage) : std::uint8_t{0};
}

/// What is assigned to each register of a function.
using Assignments = std::unordered_map<int, std::vector<const Statement*>>;

/// The stage of the value in some registers, as what made it tells. Which of several assignments it
/// is from is left open.
std::uint8_t stage_of_value(const Assignments& assignments, std::vector<int> open);

/// Whether it reads or writes the shared memory of another block of the cluster, as far as
/// registers show.
bool is_of_other_block(const Assignments& assignments, const Statement& statement);

}  // namespace lanescope::ptx

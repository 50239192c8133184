#include "gates/commands/commands.h"

namespace lanescope {

std::span<const NamedCommand> commands() {
#define HERE(name, about) {#name, about, name##_command},
#define ELSEWHERE(name, about) {#name, about, nullptr},
  static constexpr NamedCommand rows[] = {LANESCOPE_COMMANDS(HERE, ELSEWHERE)};
#undef HERE
#undef ELSEWHERE
  return rows;
}

}  // namespace lanescope

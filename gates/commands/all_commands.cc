#include "gates/commands/commands.h"

namespace lanescope {

std::span<const NamedCommand> commands() {
#define HERE(name, about) {#name, about, name##_command},
  static constexpr NamedCommand rows[] = {LANESCOPE_COMMANDS(HERE, HERE)};
#undef HERE
  return rows;
}

}  // namespace lanescope

#include "gates/commands/whole_program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "gates/build/module_build.h"
#include "gates/commands/command_line.h"
#include "gates/commands/commands.h"

namespace lanescope {

bool needs_whole_program(int argc, char** argv) {
  const std::span<const NamedCommand> rows = commands();
  const auto elsewhere = [](const NamedCommand& row) { return !row.declare; };
  if (std::none_of(rows.begin(), rows.end(), elsewhere)) return false;
  std::vector<std::string> words = plain_words({argv + 1, argv + argc});
  if (!words.empty() && words.front() == "help") {
    if (words.size() == 1) return asks_for_json(argc, argv);
    words.erase(words.begin());
  }
  return !words.empty() && std::any_of(rows.begin(), rows.end(), [&](const NamedCommand& row) {
    return elsewhere(row) && row.name == words.front();
  });
}

void become_whole_program(char** argv) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path whole = here.parent_path() / "commands" / here.filename();
  build_files({whole}, "the program");
  execv(whole.c_str(), argv);
  throw EnvironmentError("cannot start " + whole.string() + ": " + std::strerror(errno));
}

}  // namespace lanescope

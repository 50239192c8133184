#include "debug/simt/source_lines.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

extern char** environ;

namespace lanescope::simt {
namespace {

std::string hex(std::uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", number);
  return text;
}

/// The lines of stdout of `words`; none where it cannot be run or fails.
std::vector<std::string> output_of(const std::vector<std::string>& words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  const std::unique_ptr<FILE, int (*)(FILE*)> out(fdopen(ends[0], "r"), std::fclose);
  if (error != 0) return {};
  std::vector<std::string> lines;
  char* line = nullptr;
  std::size_t size = 0;
  for (ssize_t n; (n = getline(&line, &size, out.get())) > 0;) {
    lines.emplace_back(line, static_cast<std::size_t>(line[n - 1] == '\n' ? n - 1 : n));
  }
  std::free(line);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? lines : std::vector<std::string>{};
}

}  // namespace

std::string shortened(std::string line) {
  line = line.substr(0, line.find(" ("));
  std::size_t begin = 0;
  for (const char* folder : {"/kernels/", "/gates/", "/debug/", "/tests/"}) {
    if (const std::size_t at = line.rfind(folder); at != std::string::npos)
      begin = std::max(begin, at + 1);
  }
  return line.substr(begin);
}

bool is_vocabulary(const std::string& line) {
  return line.starts_with("kernels/device/") || line.starts_with("debug/") ||
         line.starts_with("gates/") || line.find("lanescope.h:") != std::string::npos ||
         line.find("/include/") != std::string::npos ||
         line.find("/triton/language/") != std::string::npos;
}

std::map<std::uint32_t, std::string> source_lines(const std::string& image,
                                                  const std::vector<std::uint32_t>& places,
                                                  std::string& warning) {
  std::map<std::uint32_t, std::string> lines;
  if (places.empty()) return lines;
  std::vector<std::string> words = {"addr2line", "-a", "-i", "-f", "-e", image};
  for (const std::uint32_t place : places) words.push_back(hex(place - 1));
  // Per address: the address, then a function and its line for every level of inlining.
  std::size_t next = 0;
  bool innermost = true, settled = false;
  for (const std::string& line : output_of(words)) {
    if (line.starts_with("0x")) {
      ++next;
      innermost = true;
      settled = false;
    } else if (const bool is_line = line.find(':') != std::string::npos; is_line && next > 0) {
      const std::string text = shortened(line);
      if (text.starts_with("?")) continue;
      if (innermost || (!settled && !is_vocabulary(text))) lines[places[next - 1]] = text;
      settled = settled || !is_vocabulary(text);
      innermost = false;
    }
  }
  for (const std::uint32_t place : places) {
    if (lines.contains(place)) continue;
    lines[place] = std::filesystem::path(image).filename().string() + "+" + hex(place - 1);
    warning = "no source lines: binutils' addr2line is missing, or there is no debug information";
  }
  return lines;
}

std::string kernel_line(const std::string& image, const std::vector<std::uint32_t>& places) {
  std::string warning;
  const auto lines = source_lines(image, places, warning);
  std::string first;
  for (const std::uint32_t place : places) {
    const std::string& line = lines.at(place);
    if (line.find(':') == std::string::npos) continue;
    if (!is_vocabulary(line)) return line;
    if (first.empty()) first = line;
  }
  return first;
}

}  // namespace lanescope::simt

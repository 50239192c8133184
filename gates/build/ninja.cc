#include "gates/build/ninja.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>

#include "debug/text/progress.h"
#include "gates/build/compile_errors.h"
#include "gates/build/this_build.h"
#include "reference/error.h"

extern char** environ;

namespace lanescope {
namespace {

bool quiet = false;

/// What ninja says, line by line.
class NinjaWords {
 public:
  /// `counted`: its steps say how far it is.
  NinjaWords(Progress& progress, bool counted) : progress_(progress), counted_(counted) {}

  void take(std::string_view text) {
    line_ += text;
    all_ += text;
    for (std::size_t end = line_.find('\n'); end != line_.npos; end = line_.find('\n')) {
      say(line_.substr(0, end + 1));
      line_.erase(0, end + 1);
    }
  }
  /// All that was said.
  const std::string& all() const { return all_; }
  void end(bool failed) {
    say(line_);
    if (failed) std::fputs(held_back_.c_str(), stderr);
  }

 private:
  void say(const std::string& line) {
    if (line.empty() || (line.starts_with("ninja: ") && !line.starts_with("ninja: error"))) return;
    if (quiet) {
      held_back_ += line;
      return;
    }
    int step = 0, steps = 0;
    if (Progress::shown() && std::sscanf(line.c_str(), "[%d/%d]", &step, &steps) == 2) {
      if (counted_) progress_.at(step, steps);
      return;
    }
    Progress::wipe();
    std::fputs(line.c_str(), stderr);
  }

  Progress& progress_;
  bool counted_;
  std::string line_, held_back_, all_;
};

/// Keeps what the compiler warned of beside each module that was built: it says so once.
void keep_warnings(const std::vector<std::string>& targets, const std::string& words) {
  const std::vector<std::string> warnings = compile_warnings(words);
  for (const std::string& target : targets) {
    if (words.find(target) == words.npos) continue;  // it was up to date
    std::ofstream file(this_build::build_root() + "/" + target + ".warnings");
    for (const std::string& warning : warnings) file << warning << "\n";
  }
}

std::string ninja_log() {
  std::ifstream in(this_build::build_root() + "/.ninja_log");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// ".sim.checked.so" of "gates/mma.fused.f16.d64.64x64.sim.checked.so".
std::string_view kind_of(std::string_view target) {
  for (const std::string_view backend : {".sim", ".cuda"}) {
    if (const std::size_t at = target.find(backend); at != target.npos) return target.substr(at);
  }
  return target;
}

/// Reads `from` to its end, drawing meanwhile.
void listen(int from, NinjaWords& words) {
  constexpr int slice = 100;  // milliseconds
  char text[4096];
  for (;;) {
    pollfd ready{from, POLLIN, 0};
    if (poll(&ready, 1, slice) > 0) {
      const ssize_t size = read(from, text, sizeof text);
      if (size <= 0) return;
      words.take({text, static_cast<std::size_t>(size)});
    }
    Progress::draw();
  }
}

}  // namespace

void build_quietly() { quiet = true; }

double seconds_to_build(const std::string& log, const std::string& target) {
  std::map<std::string, double> steps;  // by their outputs; the last time counts
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    double begin = 0, end = 0;
    std::string time, output;
    if (fields >> begin >> end >> time >> output) steps[output] = (end - begin) / 1000;
  }
  std::map<std::string, double> modules;
  for (const auto& [output, seconds] : steps) {
    if (const std::size_t at = output.find(".so"); at != output.npos) {
      modules[output.substr(0, at + 3)] += seconds;
    }
  }
  if (const auto known = modules.find(target); known != modules.end()) return known->second;
  double sum = 0;
  int alike = 0;
  for (const auto& [module, seconds] : modules) {
    if (kind_of(module) != kind_of(target)) continue;
    sum += seconds;
    ++alike;
  }
  return alike == 0 ? 0 : sum / alike;
}

int run_ninja(const char* ninja, const std::vector<std::string>& targets) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw EnvironmentError("cannot open a pipe for ninja");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  if (quiet) posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
  std::vector<std::string> words = {ninja, "-C", this_build::build_root()};
  words.insert(words.end(), targets.begin(), targets.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, ninja, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  if (error != 0) {
    close(pipe_ends[0]);
    throw EnvironmentError(std::string("cannot start ") + ninja);
  }
  const bool one = targets.size() == 1;
  Progress progress("building " +
                    (one ? targets.front() : std::to_string(targets.size()) + " modules"));
  if (one && Progress::shown()) progress.expect(seconds_to_build(ninja_log(), targets.front()));
  NinjaWords said(progress, !one);
  listen(pipe_ends[0], said);
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  said.end(code != 0);
  keep_warnings(targets, said.all());
  return code;
}

}  // namespace lanescope

#include "gates/process/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "reference/error.h"

extern char** environ;

namespace lanescope {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw EnvironmentError("cannot open a pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    if (read_end >= 0) ::close(read_end);
    close_write_end();
  }
  void close_write_end() {
    if (write_end >= 0) ::close(write_end);
    write_end = -1;
  }
};

/// In a process group of its own, so that all that it starts can be ended with it.
pid_t start(const std::vector<std::string>& words, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw EnvironmentError("cannot start " + words[0] + ": " + std::strerror(error));
  return child;
}

/// Reads what is there; false at the end.
bool take(pollfd& source, std::string& text) {
  if (source.revents == 0) return true;
  char buffer[65536];
  const ssize_t count = ::read(source.fd, buffer, sizeof buffer);
  if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
  return count > 0;
}

}  // namespace

ProgramOutcome run_program(const std::vector<std::string>& words, int stop) {
  Pipe out, err;
  const pid_t child = start(words, out, err);
  out.close_write_end();
  err.close_write_end();
  ProgramOutcome outcome;
  pollfd sources[] = {{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}, {stop, POLLIN, 0}};
  while (sources[0].fd >= 0 || sources[1].fd >= 0) {
    if (::poll(sources, 3, outcome.stopped ? 2000 : -1) == 0) break;  // it does not end
    if (sources[2].revents != 0) {
      ::kill(-child, SIGINT);
      outcome.stopped = true;
      sources[2].fd = -1;
    }
    if (sources[0].fd >= 0 && !take(sources[0], outcome.out)) sources[0].fd = -1;
    if (sources[1].fd >= 0 && !take(sources[1], outcome.err)) sources[1].fd = -1;
  }
  if (outcome.stopped) ::kill(-child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

}  // namespace lanescope

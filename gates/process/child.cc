#include "gates/process/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "debug/text/progress.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr int seconds_to_die = 10;

/// Children whose ends nobody waits for.
std::vector<pid_t>& left_to_end() {
  static auto& ids = *new std::vector<pid_t>();  // until the very end
  return ids;
}

/// Where memory runs out, this process goes, not the one that waits for it.
void volunteer_to_be_killed() {
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, "1000", 4);
  close(file);
}

/// What this process does about a signal is not for its children.
void forget_handlers() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    signal(number, SIG_DFL);
  }
}

}  // namespace

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  const char* meaning = sigdescr_np(signal);
  std::string text = meaning ? meaning : "signal " + std::to_string(signal);
  return name ? text + " (SIG" + name + ")" : text;
}

Child::Child(const std::function<void(int)>& body) {
  std::erase_if(left_to_end(), [](pid_t id) { return waitpid(id, nullptr, WNOHANG) != 0; });
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw EnvironmentError(std::string("no socket to be had: ") + std::strerror(errno));
  }
  std::fflush(stdout);  // else both processes write what waits in it
  parent_ = getpid();
  id_ = fork();
  if (id_ < 0) {
    const std::string reason = std::strerror(errno);
    close(ends[0]);
    close(ends[1]);
    throw EnvironmentError("cannot start a process to run the kernel in: " + reason);
  }
  if (id_ == 0) {
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent_) _exit(1);
    setpgid(0, 0);
    volunteer_to_be_killed();
    forget_handlers();
    dup2(STDERR_FILENO, STDOUT_FILENO);
    [&]() noexcept { body(ends[1]); }();
    std::fflush(stdout);
    _exit(0);
  }
  setpgid(id_, id_);  // here as well: whichever comes first
  close(ends[1]);
  socket_ = ends[0];
}

Child::~Child() {
  close(socket_);
  if (id_ <= 0 || getpid() != parent_) return;  // a child that calls exit has a copy of this
  kill(-id_, SIGKILL);
  left_to_end().push_back(id_);
}

/// It is left to be waited for, so that its number stays its own.
bool Child::has_ended() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == id_;
}

Child::Heard Child::listen(double seconds) {
  // What it started may hold its end of the socket, so that its end is not that of the socket.
  constexpr int slice = 50;  // milliseconds
  for (int left = static_cast<int>(std::ceil(seconds * 1000));; left -= slice) {
    Progress::draw();
    const bool ended = has_ended();
    pollfd socket{socket_, POLLIN, 0};
    if (poll(&socket, 1, ended ? 0 : std::clamp(left, 0, slice)) > 0) {
      return recv(socket_, &word_, 1, 0) == 1 ? Heard::word : Heard::end;
    }
    if (ended) return Heard::end;
    if (left <= slice) return Heard::nothing;
  }
}

int Child::end() {
  if (id_ <= 0) return -1;
  for (int tenth = 0; tenth < 10 * seconds_to_die; ++tenth) {
    // The end of its socket comes just before its own.
    for (int i = 0; i < 100; ++i) {
      if (has_ended()) {
        kill(-id_, SIGKILL);
        int status = -1;
        waitpid(id_, &status, 0);
        id_ = -1;
        return status;
      }
      const timespec millisecond{0, 1000000};
      nanosleep(&millisecond, nullptr);
    }
    kill(-id_, SIGKILL);
  }
  return -1;
}

std::string try_in_child(std::initializer_list<std::span<std::byte>> results, double seconds,
                         const std::function<void()>& work) {
  std::size_t bytes = 0;
  for (const std::span<std::byte> piece : results) bytes += piece.size();
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw EnvironmentError("no memory to share with another process");
  const auto each = [&](const auto& copy) {
    auto* at = static_cast<std::byte*>(shared);
    for (const std::span<std::byte> piece : results) {
      copy(at, piece);
      at += piece.size();
    }
  };
  Child child([&](int socket) {
    work();
    each([](std::byte* at, std::span<std::byte> piece) {
      std::memcpy(at, piece.data(), piece.size());
    });
    send(socket, "", 1, MSG_NOSIGNAL);
  });
  const Child::Heard heard = child.listen(seconds);
  const int status = child.end();
  if (heard == Child::Heard::word) {
    each([](const std::byte* at, std::span<std::byte> piece) {
      std::memcpy(piece.data(), at, piece.size());
    });
  }
  munmap(shared, bytes);
  if (heard == Child::Heard::word) return {};
  if (heard == Child::Heard::nothing) {
    char text[64];
    std::snprintf(text, sizeof text, "it did not end within %g s", seconds);
    return text;
  }
  if (WIFSIGNALED(status)) return "it was ended by " + signal_text(WTERMSIG(status));
  return "it called exit(" + std::to_string(WEXITSTATUS(status)) + ")";
}

void run_in_child(std::initializer_list<std::span<std::byte>> results,
                  const std::function<void()>& work) {
  constexpr double minute = 60;  // the driver may have a device to wake
  const std::string breakdown = try_in_child(results, minute, work);
  if (breakdown.empty()) return;
  throw EnvironmentError("the process that asks the device broke down: " + breakdown);
}

}  // namespace lanescope

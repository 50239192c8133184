#include "gates/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "debug/error.h"

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

}  // namespace

Child::Child(const std::function<void(int)>& body) {
  std::erase_if(left_to_end(), [](pid_t id) { return waitpid(id, nullptr, WNOHANG) != 0; });
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw EnvironmentError(std::string("no socket to be had: ") + std::strerror(errno));
  }
  std::fflush(stdout);  // else both processes write what waits in it
  const pid_t parent = getpid();
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
    if (getppid() != parent) _exit(1);
    volunteer_to_be_killed();
    [&]() noexcept { body(ends[1]); }();
    std::fflush(stdout);
    _exit(0);
  }
  close(ends[1]);
  socket_ = ends[0];
}

Child::~Child() {
  close(socket_);
  if (id_ > 0) left_to_end().push_back(id_);
}

Child::Heard Child::listen(double seconds) {
  pollfd socket{socket_, POLLIN, 0};
  const int milliseconds = static_cast<int>(std::ceil(seconds * 1000));
  const int ready = poll(&socket, 1, milliseconds);
  if (ready <= 0) return Heard::nothing;
  const ssize_t got = recv(socket_, &word_, 1, 0);
  return got == 1 ? Heard::word : Heard::end;
}

void run_in_child(std::initializer_list<std::span<std::byte>> results,
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
  constexpr double minute = 60;  // the driver may have a device to wake
  const bool done = child.listen(minute) == Child::Heard::word;
  child.end();
  if (done) {
    each([](const std::byte* at, std::span<std::byte> piece) {
      std::memcpy(piece.data(), at, piece.size());
    });
  }
  munmap(shared, bytes);
  if (!done) throw EnvironmentError("the process that asks the device broke down, or hangs");
}

int Child::end() {
  if (id_ <= 0) return -1;
  int status = -1;
  for (int tenth = 0; tenth < 10 * seconds_to_die; ++tenth) {
    // The end of its socket comes just before its own.
    for (int i = 0; i < 100; ++i) {
      if (waitpid(id_, &status, WNOHANG) == id_) {
        id_ = -1;
        return status;
      }
      const timespec millisecond{0, 1000000};
      nanosleep(&millisecond, nullptr);
    }
    kill(id_, SIGKILL);
  }
  return -1;
}

}  // namespace lanescope

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>

namespace lanescope {

/// A process forked from this one to do what may crash or never end. It dies with this one, and all
/// that it started and left in its process group dies with it. What it prints goes to stderr: it is
/// no result of this program.
class Child {
 public:
  /// The child runs `body` with its end of a socket (SOCK_SEQPACKET) to this process, then ends;
  /// an exception that leaves `body` is fatal to it. Call it where no other thread runs. Throws
  /// EnvironmentError where the machine has no process left.
  explicit Child(const std::function<void(int socket)>& body);
  /// Kills it if it still runs, without waiting for its end.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  enum class Heard { word, end, nothing };
  /// Waits up to `seconds` until the child sends one byte or ends.
  Heard listen(double seconds);
  /// The last byte that it sent.
  char word() const { return word_; }

  /// Kills it if it still runs. Returns its status as waitpid gives it; −1 where it does not die
  /// within ten seconds.
  int end();

  pid_t id() const { return id_; }
  int socket() const { return socket_; }

 private:
  bool has_ended() const;

  pid_t id_ = -1;
  pid_t parent_ = -1;
  int socket_ = -1;
  char word_ = 0;
};

/// "Segmentation fault (SIGSEGV)".
std::string signal_text(int signal);

/// Runs `work` in a child, and has what it wrote to `results` here as well. Returns how the child
/// broke down where it did not get to its end ("it called exit(0)"), else nothing.
std::string try_in_child(std::initializer_list<std::span<std::byte>> results, double seconds,
                         const std::function<void()>& work);

/// The same for work that talks to the CUDA driver (gates/process/cuda_process.h says why not
/// here). Throws EnvironmentError where the child does not get to its end within a minute.
void run_in_child(std::initializer_list<std::span<std::byte>> results,
                  const std::function<void()>& work);

}  // namespace lanescope

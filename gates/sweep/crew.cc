#include "gates/sweep/crew.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "debug/text/progress.h"
#include "reference/error.h"

namespace lanescope {
namespace {

constexpr int slice = 50;  // milliseconds

std::string receive(int socket) {
  std::string text(Crew::most_bytes, '\0');
  const ssize_t size = recv(socket, text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

std::string end_text(int status) {
  if (status >= 0 && WIFSIGNALED(status)) return signal_text(WTERMSIG(status));
  return "exit(" + std::to_string(status >= 0 ? WEXITSTATUS(status) : -1) + ")";
}

}  // namespace

Crew::Crew(int size, std::function<Work()> begin) : begin_(std::move(begin)) {
  seats_.resize(static_cast<std::size_t>(size));
}

void Crew::start(Seat& seat) {
  seat.child = std::make_unique<Child>([&](int socket) {
    const Work work = begin_();
    for (std::string task = receive(socket); !task.empty(); task = receive(socket)) {
      const std::string answer = work(task);
      send(socket, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  });
}

void Crew::give(Seat& seat, const std::string& task) {
  if (!seat.child) start(seat);
  seat.task = task;
  seat.busy = true;
  // Where it has ended meanwhile, listening to it says so.
  send(seat.child->socket(), task.data(), task.size(), MSG_NOSIGNAL);
}

/// What a seat has to say, its answer or its end. False: nothing.
bool Crew::hear(Seat& seat, const Done& done) {
  pollfd ready{seat.child->socket(), POLLIN, 0};
  if (poll(&ready, 1, 0) <= 0) return false;
  const std::string answer = receive(seat.child->socket());
  if (!answer.empty()) {
    seat.busy = seat.again = false;
    done(seat.task, answer, {});
    return true;
  }
  const std::string ended = end_text(seat.child->end());
  seat.child.reset();
  if (!seat.again) {
    seat.again = true;
    give(seat, seat.task);
    return true;
  }
  seat.busy = seat.again = false;
  done(seat.task, std::nullopt, ended);
  return true;
}

void Crew::run(const Next& next, const Done& done, const std::function<bool()>& stop) {
  for (;;) {
    if (stop()) break;
    std::vector<pollfd> sockets;
    for (Seat& seat : seats_) {
      if (!seat.busy) {
        if (const std::optional<std::string> task = next()) give(seat, *task);
      }
      if (seat.busy) sockets.push_back({seat.child->socket(), POLLIN, 0});
    }
    if (sockets.empty()) return;
    poll(sockets.data(), sockets.size(), slice);
    Progress::draw();
    for (Seat& seat : seats_) {
      while (seat.busy && !stop() && hear(seat, done)) {
      }
    }
  }
  for (Seat& seat : seats_) {
    if (seat.busy) seat = {};  // ended where it is
  }
}

}  // namespace lanescope

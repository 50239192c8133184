#include "gates/process/fault_text.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "debug/simt/source_lines.h"
#include "debug/simt/stack_pool.h"
#include "gates/process/child.h"

namespace lanescope {
namespace {

using simt::LastWords;
using simt::Seat;

constexpr std::size_t seats_told = 8;

/// "kernels/mma.h:113", the line of the module's own code that the thread was in; empty where it is
/// not known. The forked process has the module where this one has it.
std::string line_of(const Module& module, const Seat& seat) {
  Dl_info image{};
  if (!seat.told || !dladdr(reinterpret_cast<const void*>(module.run), &image)) return {};
  const auto base = reinterpret_cast<std::uintptr_t>(image.dli_fbase);
  std::vector<std::uint32_t> places;
  for (int i = 0; i < seat.places_known; ++i) {
    const std::uintptr_t place = seat.places[i] - base;
    Dl_info own{};
    if (!dladdr(static_cast<const char*>(image.dli_fbase) + place - 1, &own)) continue;
    if (own.dli_fbase == image.dli_fbase) places.push_back(static_cast<std::uint32_t>(place));
  }
  return simt::kernel_line(std::filesystem::absolute(image.dli_fname).string(), places);
}

std::string at_line(const Module& module, const Seat& seat) {
  const std::string line = line_of(module, seat);
  return line.empty() ? "" : ", at " + line;
}

bool combines(const Module& module, const LastWords& words) {
  return module.gate == Gate::combine_only || words.passes > 1;
}

std::string lane_text(const Seat& seat, bool combining) {
  if (seat.block < 0) return "the kernel";
  std::string text =
      "block " + std::to_string(seat.block) + (combining ? " of the combine pass" : "");
  if (seat.lane < 0) return text;
  return text + ": lane " + std::to_string(seat.lane % 32) + " of warp " +
         std::to_string(seat.lane / 32);
}

/// At a thread of a block; of either, −1: it is not known.
Stop stop_at(Stop::Kind kind, std::int64_t block, int thread, bool combining) {
  Stop stop{.kind = kind, .combining = combining};
  if (block >= 0) stop.block = block;
  if (block >= 0 && thread >= 0) {
    stop.warp = thread / 32;
    stop.lane = thread % 32;
  }
  return stop;
}

Stop stop_at(Stop::Kind kind, const Seat& seat, bool combining) {
  return stop_at(kind, seat.block, seat.lane, combining);
}

std::string cause_text(const LastWords& words, const Seat& seat) {
  if (seat.exited) {
    return "called exit(" + std::to_string(words.exit_status) + "), which ended the run";
  }
  if (words.exception[0])
    return std::string("an exception that nobody catches: ") + words.exception;
  if (seat.stack_overflow) {
    return "stack overflow: a lane has " + std::to_string(simt::StackPool::stack_bytes >> 10) +
           " KiB";
  }
  std::string text = signal_text(seat.signal);
  if (seat.signal == SIGSEGV || seat.signal == SIGBUS) {
    char address[32];
    std::snprintf(address, sizeof address, " at address %#zx",
                  static_cast<std::size_t>(seat.address));
    text += address;
  }
  return text;
}

/// A line for each thread that was running a block, the lowest block first.
std::vector<const Seat*> running(const LastWords& words) {
  std::vector<const Seat*> seats;
  for (const Seat& seat : words.seats) {
    if (seat.block >= 0) seats.push_back(&seat);
  }
  std::sort(seats.begin(), seats.end(),
            [](const Seat* a, const Seat* b) { return a->block < b->block; });
  return seats;
}

std::string running_text(const Module& module, const LastWords& words) {
  std::string text;
  const std::vector<const Seat*> seats = running(words);
  for (std::size_t i = 0; i < std::min(seats.size(), seats_told); ++i) {
    text += "\n  " + lane_text(*seats[i], combines(module, words)) + " was running" +
            at_line(module, *seats[i]);
  }
  if (seats.size() > seats_told) {
    text += "\n  and " + std::to_string(seats.size() - seats_told) + " more";
  }
  return text;
}

/// Of several threads that faulted, the one with the lowest block.
const Seat* first_that_ended(const LastWords& words) {
  const Seat* first = nullptr;
  for (const Seat& seat : words.seats) {
    if (seat.ended() && (!first || seat.block < first->block)) first = &seat;
  }
  return first;
}

}  // namespace

bool is_in_kernel(const Module& module, const Seat& seat) {
  const std::string line = line_of(module, seat);
  return !line.empty() && !simt::is_vocabulary(line);
}

Fault fault_of(const Module& module, const LastWords& words, int status) {
  Fault fault;
  fault.stop.kind = Stop::Kind::crash;
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  const Seat* seat = first_that_ended(words);
  const bool combining = combines(module, words);
  if (words.out_of_memory || (killed && !seat)) {
    fault.out_of_memory = true;
    fault.text = words.out_of_memory
                     ? "the kernel asked for more memory than there is"
                     : "the kernel's process was killed, most likely since memory ran out";
    if (seat) fault.text = lane_text(*seat, combining) + ": " + fault.text + at_line(module, *seat);
    return fault;
  }
  if (seat) {
    fault.stop = stop_at(Stop::Kind::crash, *seat, combining);
    fault.text =
        lane_text(*seat, combining) + ": " + cause_text(words, *seat) + at_line(module, *seat);
    return fault;
  }
  fault.text = WIFSIGNALED(status) ? "the kernel's process ended: " + signal_text(WTERMSIG(status))
                                   : "the kernel ended its process with exit code " +
                                         std::to_string(WEXITSTATUS(status));
  const std::vector<const Seat*> seats = running(words);
  if (seats.size() == 1) fault.stop = stop_at(Stop::Kind::crash, *seats[0], combining);
  fault.text += running_text(module, words);
  return fault;
}

Fault hang_of(const Module& module, const LastWords& words, double seconds) {
  Fault fault;
  char time[32];
  std::snprintf(time, sizeof time, "%g", seconds);
  const std::vector<const Seat*> seats = running(words);
  fault.stop.kind = Stop::Kind::hang;
  if (!seats.empty()) fault.stop = stop_at(Stop::Kind::hang, *seats[0], combines(module, words));
  fault.text = (seats.empty() ? "the kernel did not end within " : "no block ended for ") +
               std::string(time) + " s, and it was stopped (--timeout SECONDS gives it longer)" +
               (words.told ? std::string("\n") + words.places : running_text(module, words));
  if (seats.empty() && !words.told) {
    const std::string line = line_of(module, words.seats[0]);
    if (!line.empty()) fault.text += "\n  it was at " + line;
  }
  return fault;
}

Stop stop_of_rule(const Module& module, const simt::LastWords& words) {
  const std::int64_t broke = words.broke_rule;
  const std::int64_t block = broke < 0 ? -1 : broke / LastWords::most_threads;
  const auto thread = static_cast<int>(broke % LastWords::most_threads);
  return stop_at(Stop::Kind::rule, block, thread, combines(module, words));
}

}  // namespace lanescope

#include "debug/simt/last_words.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "debug/simt/block.h"

namespace lanescope::simt {
namespace {

constexpr std::size_t handler_stack_bytes = std::size_t{1} << 16;
constexpr int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
static_assert(ask_signal == SIGUSR1);

LastWords* last_words = nullptr;
constinit thread_local Seat* my_seat = nullptr;

// Everything below may run in a signal handler: no locks, no allocations.

/// A thread that the machine does not know, such as one that the kernel started, shares the last.
Seat& own_seat() { return my_seat ? *my_seat : last_words->seats[LastWords::seat_count - 1]; }

void note_places(Seat& seat) {
  seat.places_known = 0;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* to) {
        auto& known = static_cast<Seat*>(to)->places_known;
        int before_instruction = 0;
        const std::uintptr_t place = _Unwind_GetIPInfo(context, &before_instruction);
        // A return address is that of the instruction behind the call, a fault's that of its own.
        static_cast<Seat*>(to)->places[known] = place + (before_instruction ? 1 : 0);
        return ++known < Seat::most_places ? _URC_NO_REASON : _URC_END_OF_STACK;
      },
      &seat);
}

bool is_below_stack(const void* address) {
  const BlockRunner* runner = BlockRunner::current();
  if (!runner || !runner->stack_end()) return false;
  const auto bottom =
      reinterpret_cast<std::uintptr_t>(runner->stack_end()) - StackPool::stack_bytes;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  // The guard page is the lowest of the stack's own.
  return reinterpret_cast<std::uintptr_t>(address) - (bottom - page) < 3 * page;
}

/// Blocks that other threads run may end, so that all below the faulty one do.
void wait_for_others() {
  last_words->stop = true;
  const timespec millisecond{0, 1000000};
  for (int waited = 0; waited < 2000; ++waited) {
    bool runs = false;
    for (const Seat& seat : last_words->seats) {
      runs = runs || ((seat.takes || seat.block >= 0) && !seat.ended());
    }
    if (!runs) return;
    nanosleep(&millisecond, nullptr);
  }
}

void note_fault(int signal, siginfo_t* info, void*) {
  ::signal(signal, SIG_DFL);  // a second fault, in here, is the end
  Seat& seat = own_seat();
  seat.address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  seat.stack_overflow = (signal == SIGSEGV || signal == SIGBUS) && is_below_stack(info->si_addr);
  seat.signal = signal;
  note_places(seat);
  seat.told = true;
  wait_for_others();
  raise(signal);  // comes when the handler returns
}

void note_exit(int status, void*) {
  last_words->exit_status = status;
  Seat& seat = own_seat();
  seat.exited = true;
  note_places(seat);
  seat.told = true;
  wait_for_others();
  std::fflush(stdout);
  _exit(status);
}

void note_place(int, siginfo_t*, void*) {
  Seat& seat = own_seat();
  if (seat.ended()) return;
  note_places(seat);
  seat.told = true;
}

[[noreturn]] void note_exception() {
  try {
    if (std::current_exception()) throw;
    std::snprintf(last_words->exception, sizeof last_words->exception, "std::terminate");
  } catch (const std::bad_alloc& error) {
    last_words->out_of_memory = true;
  } catch (const std::exception& error) {
    std::snprintf(last_words->exception, sizeof last_words->exception, "%s", error.what());
  } catch (...) {
    std::snprintf(last_words->exception, sizeof last_words->exception, "of an unknown type");
  }
  std::abort();
}

Seat* take_seat() {
  if (!last_words) return nullptr;
  const auto id = static_cast<pid_t>(syscall(SYS_gettid));
  for (int i = 0; i < LastWords::seat_count - 1; ++i) {
    pid_t nobody = 0;
    Seat& seat = last_words->seats[i];
    if (seat.thread_id == id || seat.thread_id.compare_exchange_strong(nobody, id)) return &seat;
  }
  return nullptr;
}

}  // namespace

void note_last_words(LastWords& words) {
  last_words = &words;
  static const Sitting main_thread;
  note_places(own_seat());  // loads what the handler needs
  own_seat().places_known = 0;
  for (const int signal : fatal_signals) {
    struct sigaction action {};
    action.sa_sigaction = note_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
  struct sigaction ask {};
  ask.sa_sigaction = note_place;
  ask.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigaction(ask_signal, &ask, nullptr);
  std::set_terminate(note_exception);
  on_exit(note_exit, nullptr);
}

void note_pass() {
  if (last_words) ++last_words->passes;
}

Sitting::Sitting() : seat_(take_seat()) {
  if (!seat_ || my_seat) return;
  my_seat = seat_;
  stack_ = mmap(nullptr, handler_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
  if (stack_ == MAP_FAILED) {
    stack_ = nullptr;
    return;
  }
  stack_t stack{};
  stack.ss_sp = stack_;
  stack.ss_size = handler_stack_bytes;
  sigaltstack(&stack, nullptr);
}

Sitting::~Sitting() {
  if (seat_) seat_->takes = false;
  if (!stack_) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(stack_, handler_stack_bytes);
  my_seat = nullptr;
  seat_->thread_id = 0;
}

void Sitting::take_block() {
  if (seat_) seat_->takes = true;
}

void Sitting::begin_block(std::int64_t block) {
  if (!seat_) return;
  seat_->lane = -1;
  seat_->block = block;
  seat_->takes = false;
}

void Sitting::end_block() {
  if (!seat_) return;
  seat_->block = -1;
  ++last_words->blocks_ended;
}

void Sitting::note_broken_rule(std::int64_t block, int thread) {
  if (!last_words) return;
  const std::int64_t own = block * LastWords::most_threads + thread;
  std::int64_t known = -1;
  while (!last_words->broke_rule.compare_exchange_weak(known, own) && own < known) {
  }
}

bool Sitting::must_stop() { return last_words && last_words->stop; }

bool Sitting::is_asked() { return last_words && last_words->asks && !last_words->tells; }

void Sitting::tell_places(const std::string& lines) {
  if (!last_words || last_words->tells.exchange(true)) return;
  std::snprintf(last_words->places, sizeof last_words->places, "%s", lines.c_str());
  last_words->told = true;
}

}  // namespace lanescope::simt

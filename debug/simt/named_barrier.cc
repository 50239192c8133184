// The barriers 1 to 15 of a block, and the registers that its lanes share.

#include <string>
#include <utility>

#include "debug/simt/async_block.h"
#include "debug/simt/describe.h"

namespace lanescope::simt {

std::string NamedBarrier::story() const {
  return "barrier " + std::to_string(id) + ": " + std::to_string(arrived.size()) + " of " +
         std::to_string(threads) + " threads have come: " + threads_text(arrived);
}

bool AsyncBlock::arrive(int id, int threads, bool waits, const Caller& caller) {
  if (id < 1 || id > 15) {
    host_.fail(caller, "barriers are 1 to 15 (0 is block_sync's), not " + std::to_string(id));
  }
  NamedBarrier& barrier = named_[id];
  if (threads <= 0 || threads % 32 != 0) {
    host_.fail(caller,
               "the number of threads, " + std::to_string(threads) + ", is no multiple of 32");
  }
  if (!barrier.arrived.empty() && barrier.threads != threads) {
    host_.fail(caller, "this call counts " + std::to_string(threads) +
                           " threads, others count otherwise: " + barrier.story());
  }
  barrier.threads = threads;
  const int thread = caller.thread;
  for (const Arrival& a : barrier.arrived) {
    if (a.thread != thread) continue;
    host_.fail(caller, "the lane comes a second time, the first was at " + describe(a.here) + ": " +
                           barrier.story());
  }
  BlockChecker* checker = host_.checker();
  if (checker) checker->clocks().give(barrier.current, thread);
  barrier.arrived.push_back({thread, caller.here, 0});
  if (static_cast<int>(barrier.arrived.size()) < threads) {
    if (waits) barrier.waiting.push_back(thread);
    return !waits;
  }
  barrier.completed = std::exchange(barrier.current, {});
  barrier.arrived.clear();
  wake(barrier.waiting, barrier.completed);
  if (waits && checker) checker->clocks().take(barrier.completed, thread);
  return true;
}

std::string AsyncBlock::RegisterPool::story() const {
  return "registers: a lane wants " + std::to_string(wanted) + " more, " + std::to_string(free) +
         " are free in the block's " + std::to_string(registers_of_block);
}

bool AsyncBlock::change_registers(int registers, bool more, const Caller& caller) {
  if (registers < 24 || registers > 256 || registers % 8 != 0) {
    host_.fail(caller, std::to_string(registers) + " is no multiple of 8 from 24 to 256");
  }
  int& own = registers_[static_cast<std::size_t>(caller.thread)];
  if (more ? registers < own : registers > own) {
    host_.fail(caller, "the lane has " + std::to_string(own) + " registers, and asks for " +
                           std::to_string(registers));
  }
  if (registers - own > registers_free_.free) {
    registers_free_.wanted = registers - own;
    waiting_for_registers_.push_back(caller.thread);
    return false;
  }
  registers_free_.free += own - registers;
  own = registers;
  for (const int other : std::exchange(waiting_for_registers_, {})) host_.wake(other);
  return true;
}

}  // namespace lanescope::simt

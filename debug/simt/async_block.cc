#include "debug/simt/async_block.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "debug/simt/block.h"
#include "debug/simt/describe.h"

namespace lanescope::simt {
namespace {

/// What lies in the memory of an mbarrier: not what a GPU keeps there.
constexpr Mbarrier marker = 0x7265697272616270;
constexpr int registers_of_block = 65536;  ///< (CUDA C++ Programming Guide, compute capability 9.0)
constexpr std::int64_t most_bytes = (1 << 20) - 1;  ///< of a phase (PTX ISA, "Tx-count")

std::string threads_text(const std::vector<Arrival>& arrivals) {
  std::set<int> threads;
  for (const Arrival& a : arrivals) threads.insert(a.thread);
  std::string text;
  for (auto t = threads.begin(); t != threads.end();) {
    const int first = *t;
    int last = first;
    while (++t != threads.end() && *t == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first) +
            (last > first ? "-" + std::to_string(last) : "");
  }
  return text;
}

/// "thread 256 at kernels/wgmma.h:80"
std::string who_came(const std::vector<Arrival>& arrivals) {
  return (arrivals.size() > 1 ? "threads " : "thread ") + threads_text(arrivals) + " at " +
         describe(arrivals.back().here);
}

/// Those of `before` who are not in `now`.
std::vector<Arrival> missing(const std::vector<Arrival>& before, const std::vector<Arrival>& now) {
  std::vector<Arrival> rest;
  for (const Arrival& b : before) {
    const auto same = [&](const Arrival& a) { return a.thread == b.thread; };
    if (std::none_of(now.begin(), now.end(), same)) rest.push_back(b);
  }
  return rest;
}

}  // namespace

std::string MbarrierState::story() const {
  std::string text = name + ": of its phase " + std::to_string(phase) + " (parity " +
                     std::to_string(phase & 1) + ") " + std::to_string(count - pending) + " of " +
                     std::to_string(count) + " arrivals";
  if (expected != 0 || bytes != 0) {
    text += " and " + std::to_string(expected - bytes) + " of " + std::to_string(expected) +
            " expected bytes";
  }
  text += " have come";
  if (!arrived.empty()) text += ": " + who_came(arrived);
  if (const auto rest = missing(arrived_before, arrived); !rest.empty() && pending > 0) {
    text += "; in the phase before also " + who_came(rest);
  }
  return text;
}

std::string NamedBarrier::story() const {
  return "barrier " + std::to_string(id) + ": " + std::to_string(arrived.size()) + " of " +
         std::to_string(threads) + " threads have come: " + threads_text(arrived);
}

AsyncBlock::AsyncBlock(BlockRunner& runner, int threads)
    : runner_(runner),
      products_(static_cast<std::size_t>(threads / 32)),
      calls_(static_cast<std::size_t>((threads + 127) / 128)),
      operands_(static_cast<std::size_t>(threads)),
      registers_(static_cast<std::size_t>(threads),
                 std::min(255, registers_of_block / threads) / 8 * 8),
      free_registers_(registers_of_block - threads * registers_[0]) {
  for (int i = 0; i < 16; ++i) named_[i].id = i;
}

MbarrierState& AsyncBlock::barrier(const Mbarrier& memory, const char* name, Here here) {
  const auto offset = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&memory) -
                                               runner_.shared_memory());
  const auto found = barriers_.find(offset);
  if (found == barriers_.end()) {
    runner_.fail(
        name, here,
        runner_.describe_shared(offset) + " is no mbarrier: mbarrier_init has not run, or not yet");
  }
  if (memory != marker) {
    runner_.fail(name, here,
                 found->second.name + " was overwritten: its 8 bytes hold something else");
  }
  BlockChecker* checker = runner_.checker();
  const int thread = runner_.thread_index();
  if (checker && !checker->clocks().past(thread).holds(found->second.initialised)) {
    runner_.fail(name, here,
                 "no barrier orders this behind the mbarrier_init of " + found->second.name);
  }
  return found->second;
}

void AsyncBlock::init(Mbarrier& memory, int count, Here here, std::uint32_t place) {
  const auto* at = reinterpret_cast<const std::byte*>(&memory);
  const auto offset = static_cast<std::size_t>(at - runner_.shared_memory());
  if (offset % 8 != 0 || offset + 8 > runner_.shared_bytes()) {
    runner_.fail("mbarrier_init", here, "not eight aligned bytes of shared memory");
  }
  if (count < 1 || count > most_bytes) {
    runner_.fail("mbarrier_init", here, "a count of " + std::to_string(count));
  }
  if (barriers_.contains(offset)) {
    runner_.fail("mbarrier_init", here,
                 barriers_[offset].name + " is in use: it is initialised a second time");
  }
  MbarrierState& barrier = barriers_[offset];
  barrier.name = runner_.describe_shared(offset);
  barrier.offset = offset;
  barrier.count = barrier.pending = count;
  memory = marker;
  if (BlockChecker* checker = runner_.checker()) {
    const int thread = runner_.thread_index();
    barrier.initialised = checker->clocks().now(thread);
    barrier.agent = checker->add_agent(thread);
    if (barrier.agent == 0) {
      runner_.fail("mbarrier_init", here, "the memory checker has no room for so many barriers");
    }
    checker->guard_barrier(offset, place, thread);
  }
}

void AsyncBlock::fence_init() {
  BlockChecker* checker = runner_.checker();
  for (auto& [offset, barrier] : barriers_) {
    const auto past = checker ? checker->clocks().past(runner_.thread_index()) : Past(nullptr);
    if (!checker || past.holds(barrier.initialised)) barrier.init_fenced = true;
  }
}

void AsyncBlock::complete_if_due(MbarrierState& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.count;
  barrier.expected = 0;
  ++barrier.phase;
  if (BlockChecker* checker = runner_.checker()) {
    checker->note_arrivals(barrier.arrived, barrier.count);
    checker->clocks().learn(barrier.current, barrier.agent, barrier.phase);
    barrier.completed = barrier.current;
  }
  barrier.arrived_before = std::exchange(barrier.arrived, {});
  wake(barrier.waiting, barrier.completed);
}

void AsyncBlock::wake(std::vector<int>& waiting, const Carried& completed) {
  for (const int thread : std::exchange(waiting, {})) {
    if (BlockChecker* checker = runner_.checker()) checker->clocks().take(completed, thread);
    runner_.wake(thread);
  }
}

void AsyncBlock::arrive(MbarrierState& barrier, const char* name, Here here, std::uint32_t place) {
  if (barrier.pending == 0) {
    runner_.fail(name, here, "one arrival too many: " + barrier.story());
  }
  const int thread = runner_.thread_index();
  if (BlockChecker* checker = runner_.checker()) {
    checker->clocks().give(barrier.current, thread);
  }
  barrier.arrived.push_back({thread, here, place});
  --barrier.pending;
  complete_if_due(barrier);
}

void AsyncBlock::expect(MbarrierState& barrier, std::int64_t bytes, const char* name, Here here) {
  barrier.bytes += bytes;
  barrier.expected += bytes;
  if (bytes < 0 || barrier.bytes > most_bytes) {
    runner_.fail(name, here, "a phase expects at most 2^20 - 1 bytes: " + barrier.story());
  }
}

void AsyncBlock::complete_bytes(MbarrierState& barrier, std::int64_t bytes) {
  barrier.bytes -= bytes;
  complete_if_due(barrier);
}

void AsyncBlock::wait(MbarrierState& barrier, int parity, Here here) {
  if (parity != 0 && parity != 1) {
    runner_.fail("mbarrier_wait", here, "a parity is 0 or 1, and not " + std::to_string(parity));
  }
  const int thread = runner_.thread_index();
  if (static_cast<int>(barrier.phase & 1) != parity) {
    BlockChecker* checker = runner_.checker();
    if (checker) checker->clocks().take(barrier.completed, thread);
  }
  while (static_cast<int>(barrier.phase & 1) == parity) {
    barrier.waiting.push_back(thread);
    runner_.park("mbarrier_wait", here, &barrier);
  }
  barrier.phase_waited_for = barrier.phase;
}

void AsyncBlock::arrive(int id, int threads, bool waits, Here here) {
  const char* name = waits ? "barrier_sync" : "barrier_arrive";
  if (id < 1 || id > 15) {
    runner_.fail(name, here, "barriers are 1 to 15 (0 is block_sync's), not " + std::to_string(id));
  }
  NamedBarrier& barrier = named_[id];
  if (threads <= 0 || threads % 32 != 0) {
    runner_.fail(name, here,
                 "the number of threads, " + std::to_string(threads) + ", is no multiple of 32");
  }
  if (!barrier.arrived.empty() && barrier.threads != threads) {
    runner_.fail(name, here,
                 "this call counts " + std::to_string(threads) +
                     " threads, others count otherwise: " + barrier.story());
  }
  barrier.threads = threads;
  const int thread = runner_.thread_index();
  for (const Arrival& a : barrier.arrived) {
    if (a.thread != thread) continue;
    runner_.fail(name, here,
                 "the lane comes a second time, the first was at " + describe(a.here) + ": " +
                     barrier.story());
  }
  BlockChecker* checker = runner_.checker();
  if (checker) checker->clocks().give(barrier.current, thread);
  barrier.arrived.push_back({thread, here, 0});
  if (static_cast<int>(barrier.arrived.size()) < threads) {
    if (!waits) return;
    barrier.waiting.push_back(thread);
    runner_.park(name, here, &barrier);
  } else {
    barrier.completed = std::exchange(barrier.current, {});
    barrier.arrived.clear();
    wake(barrier.waiting, barrier.completed);
    if (waits && checker) checker->clocks().take(barrier.completed, thread);
  }
}

bool AsyncBlock::land_one(std::uint64_t choice) {
  std::erase_if(flights_, [](const auto& flight) { return flight->landed; });
  if (flights_.empty()) return false;
  const auto chosen = flights_.begin() + static_cast<std::ptrdiff_t>(choice % flights_.size());
  const std::shared_ptr<Flight> flight = *chosen;
  flights_.erase(chosen);
  land(*flight);
  return true;
}

namespace {

/// Registers that others must give back first.
struct RegisterPool final : Waitable {
  int wanted, free;
  RegisterPool(int w, int f) : wanted(w), free(f) {}
  std::string story() const override {
    return "registers: a lane wants " + std::to_string(wanted) + " more, " + std::to_string(free) +
           " are free in the block's " + std::to_string(registers_of_block);
  }
};

}  // namespace

void AsyncBlock::change_registers(int thread, int registers, bool more, Here here) {
  const char* name = more ? "increase_registers" : "decrease_registers";
  if (registers < 24 || registers > 256 || registers % 8 != 0) {
    runner_.fail(name, here, std::to_string(registers) + " is no multiple of 8 from 24 to 256");
  }
  int& own = registers_[static_cast<std::size_t>(thread)];
  if (more ? registers < own : registers > own) {
    runner_.fail(name, here,
                 "the lane has " + std::to_string(own) + " registers, and asks for " +
                     std::to_string(registers));
  }
  while (registers - own > free_registers_) {
    const RegisterPool pool(registers - own, free_registers_);
    waiting_for_registers_.push_back(thread);
    runner_.park(name, here, &pool);
  }
  free_registers_ += own - registers;
  own = registers;
  for (const int other : std::exchange(waiting_for_registers_, {})) runner_.wake(other);
}

void AsyncBlock::finish() {
  if (BlockChecker* checker = runner_.checker()) {
    // Landed or not, nobody knows.
    for (const auto& [offset, barrier] : barriers_) {
      if (barrier.phase_of_copy <= barrier.phase_waited_for) continue;
      checker->add_unfinished(barrier.copied.thread, barrier.copied.place);
    }
    for (const auto& [thread, stores] : stores_) {
      for (const auto& group : stores.groups) {
        for (const auto& flight : group) checker->add_unfinished(thread, flight->place);
      }
      for (const auto& flight : stores.open) checker->add_unfinished(thread, flight->place);
    }
  }
  while (land_one()) {
  }
}

}  // namespace lanescope::simt

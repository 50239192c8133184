#include "debug/simt/async_block.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "debug/simt/describe.h"

namespace lanescope::simt {
namespace {

/// What lies in the memory of an mbarrier: not what a GPU keeps there.
constexpr Mbarrier marker = 0x7265697272616270;
constexpr std::int64_t most_bytes = (1 << 20) - 1;  ///< of a phase (PTX ISA, "Tx-count")

}  // namespace

AsyncBlock::AsyncBlock(AsyncHost& host, int threads)
    : host_(host),
      products_(static_cast<std::size_t>((threads + 31) / 32)),
      calls_(static_cast<std::size_t>((threads + 127) / 128)),
      operands_(static_cast<std::size_t>(threads)),
      waited_in_vain_(static_cast<std::size_t>(threads)),
      arrived_last_(static_cast<std::size_t>(threads)),
      registers_(static_cast<std::size_t>(threads),
                 std::min(255, registers_of_block / threads) / 8 * 8) {
  registers_free_.free = registers_of_block - threads * registers_[0];
  for (int i = 0; i < 16; ++i) named_[i].id = i;
}

std::uint32_t AsyncBlock::place_of(const Caller& caller) const {
  const BlockChecker* checker = host_.checker();
  return checker ? checker->place_of(caller.pc) : 0;
}

MbarrierState& AsyncBlock::barrier(std::size_t offset, const Caller& caller) {
  const auto found = barriers_.find(offset);
  if (found == barriers_.end()) {
    host_.fail(caller, host_.describe_shared(offset) +
                           " is no mbarrier: mbarrier_init has not run, or not yet");
  }
  Mbarrier memory;
  std::memcpy(&memory, host_.shared_memory() + offset, sizeof memory);
  if (memory != marker) {
    host_.fail(caller, found->second.name + " was overwritten: its 8 bytes hold something else");
  }
  const BlockChecker* checker = host_.checker();
  if (checker && !caller.from_outside &&
      !checker->clocks().past(caller.thread).holds(found->second.initialised)) {
    host_.fail(caller, "no barrier orders this behind the mbarrier_init of " + found->second.name);
  }
  return found->second;
}

void AsyncBlock::init(std::size_t offset, std::int64_t count, const Caller& caller) {
  if (offset % 8 != 0 || offset + 8 > host_.shared_bytes()) {
    host_.fail(caller, "not eight aligned bytes of shared memory");
  }
  if (count < 1 || count > most_bytes) {
    host_.fail(caller, "a count of " + std::to_string(count));
  }
  if (const auto known = barriers_.find(offset);
      known != barriers_.end() && host_.by_compiler() && known->second.is_unused()) {
    invalidate(offset, caller);
  }
  if (barriers_.contains(offset)) {
    host_.fail(caller, barriers_[offset].name + " is in use: it is initialised a second time");
  }
  MbarrierState& barrier = barriers_[offset];
  barrier.name = host_.describe_shared(offset);
  barrier.offset = offset;
  barrier.count = barrier.pending = static_cast<int>(count);
  std::memcpy(host_.shared_memory() + offset, &marker, sizeof marker);
  if (BlockChecker* checker = host_.checker()) {
    barrier.initialised = checker->clocks().now(caller.thread);
    barrier.agent = checker->add_agent(caller.thread);
    if (barrier.agent == 0) {
      host_.fail(caller, "the memory checker has no room for so many barriers");
    }
    if (!host_.by_compiler()) checker->guard_barrier(offset, place_of(caller), caller.thread);
  }
}

void AsyncBlock::invalidate(std::size_t offset, const Caller& caller) {
  const MbarrierState& gone = barrier(offset, caller);
  if (!gone.waiting.empty()) {
    host_.fail(caller, "threads wait for it: " + gone.story());
  }
  if (gone.under_way > 0) {
    host_.fail(caller, "a copy that nobody has waited for completes on it, issued by thread " +
                           std::to_string(gone.copied.thread) + " at " +
                           describe(gone.copied.here) + ": " + gone.story());
  }
  barriers_.erase(offset);
  if (BlockChecker* checker = host_.checker()) checker->async().guarded(offset) = 0;
}

void AsyncBlock::fence_init(int thread) {
  BlockChecker* checker = host_.checker();
  for (auto& [offset, barrier] : barriers_) {
    const auto past = checker ? checker->clocks().past(thread) : Past(nullptr);
    if (!checker || past.holds(barrier.initialised)) barrier.init_fenced = true;
  }
}

void AsyncBlock::fence_proxy(int thread) {
  if (BlockChecker* checker = host_.checker()) checker->clocks().fence(thread);
  fence_init(thread);
}

void AsyncBlock::complete_if_due(MbarrierState& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.count;
  ++barrier.phase;
  if (BlockChecker* checker = host_.checker()) {
    checker->note_arrivals(barrier.offset, barrier.arrived, barrier.count);
    if (const auto late = barrier.overtaken(products_)) {
      const auto& [thread, heed] = *late;
      checker->note_overtaken_wait(barrier.offset, thread, heed.place, barrier.copied.place);
    }
    checker->clocks().learn(barrier.current, barrier.agent, barrier.phase);
    MbarrierState::Phase& phase = barrier.phases.emplace_back();
    phase.completed = barrier.current;
    const bool by_lanes = std::ssize(barrier.arrived) == barrier.count && barrier.expected == 0;
    for (const Arrival& a : barrier.arrived) {
      if (by_lanes) phase.arrivals.push_back(a.epoch);
    }
    constexpr std::size_t most_phases = 16;
    if (barrier.phases.size() > most_phases) barrier.phases.pop_front();
  }
  barrier.expected = 0;
  barrier.arrived_earlier =
      std::exchange(barrier.arrived_before, std::exchange(barrier.arrived, {}));
  for (const int thread : std::exchange(barrier.waiting, {})) host_.wake(thread);
}

void AsyncBlock::wake(std::vector<int>& waiting, const Carried& completed) {
  for (const int thread : std::exchange(waiting, {})) {
    if (BlockChecker* checker = host_.checker()) checker->clocks().take(completed, thread);
    host_.wake(thread);
  }
}

void AsyncBlock::arrive(MbarrierState& barrier, const Caller& caller, int count) {
  if (barrier.pending < count) {
    // Whoever has been at others in between has come round the ring.
    const bool twice = std::any_of(barrier.arrived.begin(), barrier.arrived.end(),
                                   [&](const Arrival& a) { return a.thread == caller.thread; });
    const bool was_elsewhere = arrived_last_[static_cast<std::size_t>(caller.thread)] != &barrier;
    const bool round = (twice && was_elsewhere) ||
                       std::any_of(barriers_.begin(), barriers_.end(), [&](const auto& other) {
                         return &other.second != &barrier && other.second.has_arrival_of(caller);
                       });
    const bool in_vain = round && waited_in_vain_[static_cast<std::size_t>(caller.thread)] != 0;
    host_.fail(caller, "one arrival too many: " + barrier.story() +
                           (twice && !round ? "; the same thread has arrived in it" : "") +
                           (round ? "; it comes round to a place that is not free again" : "") +
                           (in_vain ? ": its last wait passed by a phase that is over" : ""));
  }
  // Of threads of other blocks no clocks are known here, and no names.
  barrier.has_outsiders = barrier.has_outsiders || caller.from_outside;
  if (!caller.from_outside) {
    arrived_last_[static_cast<std::size_t>(caller.thread)] = &barrier;
    Epoch epoch = 0;
    if (BlockChecker* checker = host_.checker()) {
      epoch = checker->clocks().now(caller.thread);
      checker->clocks().give(barrier.current, caller.thread);
    }
    Arrival arrival{caller.thread, caller.here, place_of(caller), epoch};
    arrival.in_vain = waited_in_vain_[static_cast<std::size_t>(caller.thread)] != 0;
    for (int i = 0; i < count; ++i, arrival.repeats = true) barrier.arrived.push_back(arrival);
  }
  barrier.pending -= count;
  complete_if_due(barrier);
}

void AsyncBlock::expect(MbarrierState& barrier, std::int64_t bytes, const Caller& caller) {
  barrier.bytes += bytes;
  barrier.expected += bytes;
  if (bytes < 0 || barrier.bytes > most_bytes) {
    host_.fail(caller, "a phase expects at most 2^20 - 1 bytes: " + barrier.story());
  }
}

void AsyncBlock::complete_bytes(MbarrierState& barrier, std::int64_t bytes) {
  barrier.bytes -= bytes;
  complete_if_due(barrier);
}

bool AsyncBlock::try_wait(MbarrierState& barrier, int parity, const Caller& caller) {
  if (parity != 0 && parity != 1) {
    host_.fail(caller, "a parity is 0 or 1, and not " + std::to_string(parity));
  }
  if (static_cast<int>(barrier.phase & 1) == parity) {
    auto& waiting = barrier.waiting;
    if (std::find(waiting.begin(), waiting.end(), caller.thread) == waiting.end()) {
      waiting.push_back(caller.thread);
    }
    return false;
  }
  // The first wait for a place that nobody has used ends at once, as it should.
  const bool is_fresh = barrier.phase == 0 && !barrier.heeded.contains(caller.thread);
  MbarrierState::Heed& heed = barrier.heeded[caller.thread];
  const std::uint32_t before = std::exchange(heed.phases, barrier.phase);
  waited_in_vain_[static_cast<std::size_t>(caller.thread)] = before == barrier.phase && !is_fresh;
  if (BlockChecker* checker = host_.checker()) {
    learn_phase(barrier, parity, caller);
    checker->note_wait_at(barrier.agent, caller.thread, place_of(caller), before == barrier.phase,
                          barrier.phase);
    heed.epoch = checker->clocks().now(caller.thread);
    heed.place = place_of(caller);
    heed.products = products_[static_cast<std::size_t>(caller.thread / 32)].issued;
  }
  barrier.phase_waited_for = barrier.phase;
  return true;
}

void AsyncBlock::learn_phase(MbarrierState& barrier, int parity, const Caller& caller) {
  Clocks& clocks = host_.checker()->clocks();
  // The wait may have ended at the first phase of this parity that the lane did not know of.
  std::uint32_t phase = barrier.phases_known(clocks, caller.thread);
  if (static_cast<int>(phase & 1) == parity) ++phase;
  const std::uint32_t first = barrier.phase - static_cast<std::uint32_t>(barrier.phases.size());
  if (phase == 0 || barrier.phases.empty()) return;
  const std::uint32_t kept = std::max(phase, first + 1);
  clocks.take(barrier.phases[kept - first - 1].completed, caller.thread);
}

void AsyncBlock::leave(MbarrierState& barrier, int thread) { std::erase(barrier.waiting, thread); }

bool AsyncBlock::land_one(std::uint64_t choice) {
  std::erase_if(flights_, [](const auto& flight) { return flight->landed; });
  if (flights_.empty()) return false;
  const auto chosen = flights_.begin() + static_cast<std::ptrdiff_t>(choice % flights_.size());
  const std::shared_ptr<Flight> flight = *chosen;
  flights_.erase(chosen);
  land(*flight);
  return true;
}

void AsyncBlock::finish() {
  if (BlockChecker* checker = host_.checker()) {
    const bool all_landed = std::all_of(flights_.begin(), flights_.end(),
                                        [](const auto& flight) { return flight->landed; });
    // Landed or not, nobody knows.
    for (const auto& [offset, barrier] : barriers_) {
      if (barrier.phase_of_copy <= barrier.phase_waited_for) continue;
      const int thread = barrier.copied.thread;
      const std::uint32_t place = barrier.copied.place;
      if (all_landed && barrier.pending == 0 && barrier.bytes != 0) {
        checker->add_shared(Kind::wrong_expect_tx,
                            {barrier.agent, barrier.phase + 1, place, thread}, true, {}, offset, 8);
      } else {
        checker->add_unfinished(true, thread, place);
      }
    }
    for (const auto& [thread, stores] : stores_) {
      for (const auto& group : stores.groups) {
        for (const auto& flight : group) checker->add_unfinished(false, thread, flight->place);
      }
      for (const auto& flight : stores.open) checker->add_unfinished(false, thread, flight->place);
    }
  }
  while (land_one()) {
  }
  if (!host_.checker()) return;
  for (const auto& [offset, barrier] : barriers_) {
    if (barrier.bytes == 0) host_.checker()->note_all_bytes_came(offset);
  }
}

}  // namespace lanescope::simt

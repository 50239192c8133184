// What the blocks of a cluster put into each other's shared memory, to complete on an mbarrier
// there (PTX ISA, "st.async", "red.async", "cp.async.bulk", "cp.reduce.async.bulk").

#include <cstring>
#include <utility>

#include "debug/simt/async_block.h"

namespace lanescope::simt {

void AsyncBlock::demand_fenced(MbarrierState& full, const AsyncWork& work) {
  if (full.init_fenced || host_.by_compiler()) return;
  host_.checker()->add_shared(Kind::unfenced_barrier, work, false, {}, full.offset, 8);
  full.init_fenced = true;  // said once
}

std::shared_ptr<Flight> AsyncBlock::deliver(MbarrierState& full, std::int64_t bytes,
                                            const Caller& caller, std::function<void()> bring) {
  const std::uint32_t place = place_of(caller), phase = full.phase;
  full.phase_of_copy = phase + 1;
  full.copied = {caller.thread, caller.here, place};
  full.has_outsiders = full.has_outsiders || caller.from_outside;
  ++full.under_way;
  auto flight = std::make_shared<Flight>();
  flight->place = place;
  flight->land = [=, this, &full, thread = caller.thread, bring = std::move(bring)] {
    bring();
    --full.under_way;
    if (full.phase != phase && host_.checker()) {
      host_.checker()->add_shared(Kind::wrong_expect_tx, {full.agent, phase + 1, place, thread},
                                  true, {}, full.offset, 8);
    }
    complete_bytes(full, bytes);
  };
  enqueue(flight);
  return flight;
}

std::shared_ptr<Flight> AsyncBlock::receive(std::size_t to, std::size_t bytes, MbarrierState& full,
                                            bool generic, const Caller& caller,
                                            std::function<void(std::byte* to)> bring) {
  if (BlockChecker* checker = host_.checker()) {
    AsyncWork work{full.agent, full.phase + 1, place_of(caller), caller.thread,
                   caller.from_outside};
    work.generic = generic;
    if (!generic) demand_fenced(full, work);
    checker->write_async(to, bytes, work);
    constexpr std::size_t chunk = AsyncShadow::chunk;
    for (std::size_t i = to / chunk * chunk; i < to + bytes; i += chunk) {
      checker->async().origin(i) = {};  // no tensor's
    }
  }
  return deliver(full, static_cast<std::int64_t>(bytes), caller,
                 [=, this, bring = std::move(bring)] {
                   bring(host_.shared_memory() + to);
                   host_.note_written(to, bytes);
                 });
}

void AsyncBlock::send(std::size_t from, std::size_t bytes, AsyncBlock& other, std::size_t to,
                      MbarrierState& full, const Caller& caller, const Reduction& reduce) {
  Sender& sender = senders_[&full];
  full.senders.insert(this);
  const auto number = sender.landed + static_cast<std::uint32_t>(sender.under_way.size()) + 1;
  if (BlockChecker* checker = host_.checker()) {
    if (sender.agent == 0) sender.agent = checker->add_agent(caller.thread);
    if (sender.agent == 0) {
      host_.fail(caller, "the memory checker has no room for copies to so many barriers");
    }
    checker->read_async(from, bytes, {sender.agent, number, place_of(caller), caller.thread});
  }
  Caller outside = caller;
  outside.from_outside = true;
  const auto bring = [=, this, &sender](std::byte* at) {
    while (sender.landed + 1 < number) {
      const std::shared_ptr<Flight> before = sender.under_way.front().flight;
      land(*before);
    }
    sender.under_way.pop_front();
    ++sender.landed;
    const std::byte* source = host_.shared_memory() + from;
    reduce ? reduce(at, source, bytes) : void(std::memcpy(at, source, bytes));
  };
  sender.under_way.push_back(
      {other.receive(to, bytes, full, false, outside, bring), caller.thread});
}

void AsyncBlock::learn_landed(const MbarrierState& full, std::uint32_t count, int thread) {
  BlockChecker* checker = host_.checker();
  const int agent = senders_[&full].agent;
  if (checker && agent != 0) checker->clocks().learn(thread, agent, count);
}

void AsyncBlock::finish_sending() {
  BlockChecker* checker = host_.checker();
  if (!checker) return;
  for (const auto& [full, sender] : senders_) {
    for (const auto& sent : sender.under_way) {
      checker->add_unfinished(false, sent.thread, sent.flight->place);
    }
  }
}

}  // namespace lanescope::simt

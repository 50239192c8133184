#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "debug/simt/finding.h"

namespace lanescope::simt {

/// A lane at one point of its run: the lane, and how often it has met others (its clock). Or an
/// agent, which does asynchronous work for lanes, and how many pieces of it. 0 is no point at all,
/// and before all others.
using Epoch = std::uint32_t;
inline constexpr int clock_bits = 20;
inline constexpr std::uint32_t clock_limit = (1u << clock_bits) - 1;
inline constexpr int most_threads = 1024;  ///< of a block (CUDA C++ Programming Guide)
inline constexpr int most_agents = 128;    ///< of a block
/// Set in the epoch of a write that an async copy may do at any time from now on.
inline constexpr Epoch in_flight = 1u << 31;

constexpr int thread_of(Epoch e) { return static_cast<int>((e & ~in_flight) >> clock_bits); }
constexpr std::uint32_t clock_of(Epoch e) { return e & clock_limit; }
constexpr Epoch epoch_of(int thread, std::uint32_t clock) {
  return static_cast<Epoch>(thread) << clock_bits | clock;
}

/// All that happened before the present of one lane.
class Past {
 public:
  explicit Past(const std::uint32_t* seen) : seen_(seen) {}
  Past(const std::uint32_t* seen, int thread, const std::uint32_t* exchanged)
      : seen_(seen), exchanged_(exchanged), first_of_warp_(thread / 32 * 32) {}
  bool holds(Epoch e) const { return clock_of(e) <= seen_[thread_of(e)]; }
  /// Whether a read is over: also where the lane's warp exchanged values since.
  bool holds_read(Epoch e) const {
    if (holds(e)) return true;
    const int in_warp = thread_of(e) - first_of_warp_;
    return exchanged_ && in_warp >= 0 && in_warp < 32 && clock_of(e) <= exchanged_[thread_of(e)];
  }

 private:
  const std::uint32_t* seen_;                 ///< [lane]: its clock, as far as it is known
  const std::uint32_t* exchanged_ = nullptr;  ///< [lane]: its clock when its warp last did
  int first_of_warp_ = 0;
};

/// What arrivals leave for whoever waits for them: how far each lane and agent had come, and what
/// of it the asynchronous proxy sees.
struct Carried {
  std::vector<std::uint32_t> seen, fenced;
};

/// What happens before what within a block: a vector clock per lane (Lamport 1978; Fidge 1988).
/// Exact for every kind of meeting, so that a race is found whatever the order in which the machine
/// ran the lanes.
class Clocks {
 public:
  explicit Clocks(int threads);
  void reset();

  int threads() const { return static_cast<int>(threads_); }
  Epoch now(int thread) const { return epoch_of(thread, own(thread)); }
  Past past(int thread) const { return {&seen_[index(thread, 0)], thread, exchanged_.data()}; }
  /// All that the lanes did before is before all that they do next.
  void meet(std::span<const int> threads);
  /// Asynchronous work that one of the lanes has waited for is done before what they do next.
  void share_waits(std::span<const int> threads);
  /// The lanes of a whole warp give each other values that they hold. That "does not imply a memory
  /// barrier" (CUDA C++ Programming Guide, Warp Shuffle Functions), so what one wrote, others may
  /// not see; but what one read, it has, and others may overwrite it.
  void exchange(int warp);
  /// An arrival, and the end of a wait for those that `carried` holds.
  void give(Carried& carried, int thread);
  void take(const Carried& carried, int thread);

  /// One more agent: its number in epochs, behind those of the threads. 0 where there are too many.
  int add_agent();
  /// The lane, or who waits for `carried`, knows what the agent did until `clock`.
  void learn(int thread, int agent, std::uint32_t clock) {
    raise(seen_[index(thread, agent)], clock);
  }
  void learn(Carried& carried, int agent, std::uint32_t clock);
  /// fence.proxy.async: what the lane knows of, the asynchronous proxy sees from now on, where the
  /// lane or one after it issues it (PTX ISA, Causality order).
  void fence(int thread);
  /// What the asynchronous proxy sees of generic writes, in what the lane issues.
  bool fenced(int thread, Epoch e) const {
    return !fenced_.empty() && Past(&fenced_[index(thread, 0)]).holds(e);
  }
  /// Around an atomic access of `address`: it is after the ones before and before the ones to come.
  void acquire(const void* address, int thread);
  void release(const void* address, int thread);
  /// A lane has met others more often than an epoch can count.
  bool overflowed() const { return overflowed_; }

 private:
  std::size_t index(int thread, int other) const {
    return static_cast<std::size_t>(thread) * columns_ + static_cast<std::size_t>(other);
  }
  std::uint32_t own(int thread) const { return seen_[index(thread, thread)]; }
  void advance(int thread);
  static void raise(std::uint32_t& clock, std::uint32_t to) { clock = clock < to ? to : clock; }
  void take(const std::vector<std::uint32_t>& seen, int thread);
  static void join(std::vector<std::uint32_t>& into, const std::uint32_t* from, std::size_t count);

  std::size_t threads_, columns_;
  int agents_ = 0;
  std::vector<std::uint32_t> seen_;  ///< [thread][other]: the clock of `other` that `thread` knows
  std::vector<std::uint32_t> fenced_;     ///< likewise; empty before the first fence
  std::vector<std::uint32_t> exchanged_;  ///< [thread]: its clock at its warp's last exchange
  std::unordered_map<const void*, std::vector<std::uint32_t>> passed_;  ///< by atomic accesses
  std::vector<std::uint32_t> joined_;
  bool overflowed_ = false;
};

/// An access: when, and the offset in the image of the instruction behind it.
struct Touch {
  Epoch epoch = 0;
  std::uint32_t place = 0;
};

/// What is known of one byte: its last write, and two reads since (FastTrack, Flanagan and Freund
/// 2009, cut down from a read per lane to two). Two are enough for block barriers and whole-warp
/// synchronisation: of reads that no later write is ordered behind, those of two different warps
/// are kept if there are such, else of two lanes. A write is ordered behind reads of two warps only
/// by a block barrier, which orders it behind all reads; behind two lanes of one warp only by that
/// or by the whole warp meeting, which orders it behind all reads of the warp. Only a write that
/// partial masks or atomics order behind some reads and not behind others can be missed.
struct Cell {
  Touch write;
  Touch reads[2];
};

/// Enters a read of a lane into the cell. Returns what is wrong with it, and `earlier`, the access
/// that it collides with.
inline Kind enter_read(Cell& cell, Touch me, Past past, Touch& earlier) {
  Touch& a = cell.reads[0];
  Touch& b = cell.reads[1];
  // The same lane at the same point, and no write since: all is said already.
  if (a.epoch == me.epoch || b.epoch == me.epoch) return Kind::none;
  Kind kind = Kind::none;
  earlier = cell.write;
  if (cell.write.epoch == 0) {
    kind = Kind::uninitialised_read;
  } else if (!past.holds(cell.write.epoch)) {
    kind = Kind::race;
  } else if (cell.write.epoch & in_flight) {
    kind = Kind::missing_wait;
  }
  const auto warp = [](Touch touch) { return thread_of(touch.epoch) / 32; };
  if (past.holds(a.epoch)) {
    a = me;
  } else if (past.holds(b.epoch) || (warp(a) == warp(b) && warp(a) != warp(me))) {
    b = me;
  }
  return kind;
}

/// The same for a write; the epoch of an async copy has the flag in_flight.
inline Kind enter_write(Cell& cell, Touch me, Past past, Touch& earlier) {
  Kind kind = Kind::none;
  earlier = cell.write;
  if (!past.holds(cell.write.epoch)) {
    kind = Kind::race;
  } else if (cell.write.epoch & in_flight) {
    kind = Kind::missing_wait;
  } else {
    for (const Touch& read : cell.reads) {
      if (past.holds_read(read.epoch)) continue;
      kind = Kind::race_with_read;
      earlier = read;
      break;
    }
  }
  cell = {me, {}};
  return kind;
}

}  // namespace lanescope::simt

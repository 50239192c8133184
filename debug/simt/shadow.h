#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "debug/simt/finding.h"

namespace lanescope::simt {

/// A lane at one point of its run: the lane, and how often it has met others (its clock).
/// 0 is no point at all.
using Epoch = std::uint32_t;
inline constexpr int clock_bits = 21;
inline constexpr std::uint32_t clock_limit = (1u << clock_bits) - 1;
inline constexpr int most_threads = 1024;  ///< of a block (CUDA C++ Programming Guide)
/// Set in the epoch of a write that an async copy may do at any time from now on.
inline constexpr Epoch in_flight = 1u << 31;

constexpr int thread_of(Epoch e) { return static_cast<int>((e & ~in_flight) >> clock_bits); }
constexpr std::uint32_t clock_of(Epoch e) { return e & clock_limit; }

/// What happens before what within a block: a vector clock per lane (Lamport 1978; Fidge 1988).
/// Exact for every kind of meeting, so that a race is found whatever the order in which the machine
/// ran the lanes.
class Clocks {
 public:
  explicit Clocks(int threads);
  void reset();

  Epoch now(int thread) const { return static_cast<Epoch>(thread) << clock_bits | own(thread); }
  /// Whether `earlier` happened before the present of `thread`.
  bool ordered(Epoch earlier, int thread) const {
    return clock_of(earlier) <= seen_[index(thread, thread_of(earlier))];
  }
  /// All that the lanes did before is before all that they do next.
  void meet(std::span<const int> threads);
  /// Around an atomic access of `address`: it is after the ones before and before the ones to come.
  void acquire(const void* address, int thread);
  void release(const void* address, int thread);
  /// A lane has met others more often than an epoch can count.
  bool overflowed() const { return overflowed_; }

 private:
  std::size_t index(int thread, int other) const {
    return static_cast<std::size_t>(thread) * threads_ + static_cast<std::size_t>(other);
  }
  std::uint32_t own(int thread) const { return seen_[index(thread, thread)]; }
  void advance(int thread);

  std::size_t threads_;
  std::vector<std::uint32_t> seen_;  ///< [thread][other]: the clock of `other` that `thread` knows
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

/// Enters a read of `thread` into the cell. Returns what is wrong with it, and `earlier`, the
/// access that it collides with.
inline Kind enter_read(Cell& cell, Touch me, int thread, const Clocks& clocks, Touch& earlier) {
  Kind kind = Kind::none;
  earlier = cell.write;
  if (cell.write.epoch == 0) {
    kind = Kind::uninitialised_read;
  } else if (!clocks.ordered(cell.write.epoch, thread)) {
    kind = Kind::race;
  } else if (cell.write.epoch & in_flight) {
    kind = Kind::missing_wait;
  }
  Touch& a = cell.reads[0];
  Touch& b = cell.reads[1];
  if (a.epoch == me.epoch || b.epoch == me.epoch) return kind;
  if (a.epoch == 0 || clocks.ordered(a.epoch, thread)) {
    a = me;
  } else if (b.epoch == 0 || clocks.ordered(b.epoch, thread) ||
             (thread_of(a.epoch) / 32 == thread_of(b.epoch) / 32 &&
              thread_of(a.epoch) / 32 != thread / 32)) {
    b = me;
  }
  return kind;
}

/// The same for a write; the epoch of an async copy has the flag in_flight.
inline Kind enter_write(Cell& cell, Touch me, int thread, const Clocks& clocks, Touch& earlier) {
  Kind kind = Kind::none;
  earlier = cell.write;
  if (cell.write.epoch != 0 && !clocks.ordered(cell.write.epoch, thread)) {
    kind = Kind::race;
  } else if (cell.write.epoch & in_flight) {
    kind = Kind::missing_wait;
  } else {
    for (const Touch& read : cell.reads) {
      if (read.epoch == 0 || clocks.ordered(read.epoch, thread)) continue;
      kind = Kind::race_with_read;
      earlier = read;
      break;
    }
  }
  cell = {me, {}};
  return kind;
}

}  // namespace lanescope::simt

#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lanescope::simt {

/// What is known of one thread of a process that runs a kernel.
struct Seat {
  static constexpr int most_places = 24;

  std::atomic<pid_t> thread_id{0};          ///< 0: nobody sits here
  std::atomic<bool> takes{false};           ///< is about to take a block
  std::atomic<std::int64_t> block{-1};      ///< that it runs, −1: none
  std::atomic<int> lane{-1};                ///< the thread of the block that runs or ran last
  std::atomic<int> signal{0};               ///< that ended the process here, 0: none
  std::atomic<bool> exited{false};          ///< the kernel called exit
  std::atomic<bool> stack_overflow{false};  ///< of the lane
  std::atomic<std::uintptr_t> address{0};   ///< of the access that faulted
  std::atomic<int> places_known{0};
  std::atomic<std::uintptr_t> places[most_places];  ///< where it was, callees first
  std::atomic<bool> told{false};                    ///< all of this is there

  bool ended() const { return signal != 0 || exited; }
};

/// What a process that runs a kernel leaves behind when it ends before its time. Lies in memory
/// that it shares with its parent; starts as zeroes, then is constructed in place.
struct LastWords {
  static constexpr int seat_count = 256;
  static constexpr int most_threads = 1024;  ///< of a block

  std::atomic<int> passes{0};  ///< grids that were launched
  std::atomic<std::int64_t> blocks_ended{0};
  std::atomic<bool> stop{false};  ///< a thread faulted: no new blocks
  std::atomic<int> exit_status{0};
  std::atomic<bool> out_of_memory{false};  ///< an allocation failed and nobody cared
  char exception[512] = "";                ///< what() of an exception that nobody caught
  std::atomic<bool> asks{false};           ///< the parent wants to know where a block's lanes are
  std::atomic<bool> tells{false};          ///< a thread has begun to write it to `places`
  std::atomic<bool> told{false};           ///< it is there
  char places[4096] = "";                  ///< a line per place of a block's lanes
  /// The lane that broke a rule of the machine, of the lowest block: block * most_threads + thread;
  /// −1: none did.
  std::atomic<std::int64_t> broke_rule{-1};
  Seat seats[seat_count];
};

/// From now on a fault of this process (a signal, exit, an exception that nobody catches) is noted
/// in `words` before it ends the process: where, and which block and lane ran. Blocks that other
/// threads are running get two seconds to end, so that what is found does not depend on timing.
/// ask_signal makes a thread note where it is. Once per process.
void note_last_words(LastWords& words);
inline constexpr int ask_signal = 10;  // SIGUSR1

/// To be called where a grid is launched.
void note_pass();

/// The calling thread's place in the process's last words, with a stack of its own for the signal
/// handler, since a lane's own may be what ran out. nullptr where nobody listens.
class Sitting {
 public:
  Sitting();
  ~Sitting();
  Sitting(const Sitting&) = delete;
  Sitting& operator=(const Sitting&) = delete;

  /// Before it is settled which block is next: from then on a fault elsewhere waits for it.
  void take_block();
  void begin_block(std::int64_t block);
  void run_lane(int thread) {
    if (seat_) seat_->lane.store(thread, std::memory_order_relaxed);
  }
  void end_block();
  /// Lane `thread` of block `block` broke a rule of the machine, which ends the run.
  static void note_broken_rule(std::int64_t block, int thread);
  /// Whether another thread has faulted.
  static bool must_stop();
  /// Whether the parent asks where lanes are, and nobody has begun to say.
  static bool is_asked();
  /// Says it of the block that runs, in lines.
  static void tell_places(const std::string& lines);

 private:
  Seat* seat_ = nullptr;
  void* stack_ = nullptr;
};

}  // namespace lanescope::simt

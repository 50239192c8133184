#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "debug/ptx/machine.h"
#include "debug/ptx/recording.h"
#include "debug/ptx/tensor_map_order.h"
#include "debug/ptx/warp.h"
#include "debug/simt/async_block.h"
#include "debug/simt/async_host.h"
#include "debug/simt/block_checker.h"
#include "debug/simt/last_words.h"

namespace lanescope::ptx {

/// What the lanes that have met at a barrier brought (PTX ISA, bar.red).
struct Vote {
  int holds = 0;  ///< lanes whose predicate holds
  int lanes = 0;
};

/// A barrier of a block (PTX ISA, bar).
struct Barrier {
  struct Arrival {
    int warp;
    std::uint32_t mask;
    bool waits = true;
    simt::Epoch epoch = 0;  ///< of one of the lanes; under the memory checker
    std::uint32_t pc = 0;   ///< likewise
  };
  int expected = 0;  ///< lanes, 0: all that have not exited
  int arrived = 0;
  std::vector<Arrival> arrivals;
  simt::Carried carried;  ///< by those who came and went on
  Vote vote;
};

class Cluster;

/// Runs blocks of a grid, one after the other, as one of those of its cluster.
class Block final : public simt::AsyncHost {
 public:
  Block(const Grid& grid, const Program& program, simt::Sitting& sitting, GridOrder& order,
        Cluster& cluster, int rank);

  // A block's run, as its cluster calls it. They throw Fault.

  void begin(const std::array<std::uint32_t, 3>& coordinates);
  /// Runs what is ready. Whether anything was.
  bool run_ready();
  /// Nothing can go on: a copy lands, or who asks for something in vain is told so. Whether
  /// something can now.
  bool move_on();
  /// Nothing goes on any more: all lanes have exited, or wait for each other.
  void end();

  std::int64_t instructions() const;

  const Grid& grid() const { return grid_; }
  const Program& program() const { return program_; }
  std::int64_t index() const { return block_; }
  std::array<std::uint32_t, 3> coordinates() const { return coordinates_; }
  Cluster& cluster() { return cluster_; }
  int rank() const override { return rank_; }
  int alive() const;  ///< lanes that have not exited
  /// Lanes that exited before the first barrier that the others met at, or until now.
  int left_early() const { return left_early_.value_or(exited()); }
  /// A line per place where lanes are.
  std::string describe_places() const;
  std::byte* shared() { return shared_; }
  std::size_t shared_bytes() const override { return shared_bytes_; }
  simt::BlockChecker* checker() override { return checker_ ? &*checker_ : nullptr; }
  simt::Sitting& sitting() { return sitting_; }
  BlockOrder& order() { return order_of_grid_.blocks; }
  TensorMapOrder& maps() { return order_of_grid_.maps; }
  NumbersMade& numbers() { return numbers_; }
  NumberOrigins& origins() { return origins_; }
  /// The first NaN that each instruction made of numbers that are none.
  std::unordered_map<std::uint32_t, NumberMade>& nans() { return nans_; }
  Recording* recording() { return grid_.history ? &recording_ : nullptr; }
  /// Which row tile a thread computes, as markers say it; as long as they do not, the one that has
  /// the block's index.
  std::int64_t row_tile(int thread) const {
    return row_tiles_.empty() ? block_ : row_tiles_[static_cast<std::size_t>(thread)];
  }
  void set_row_tile(int thread, std::int64_t row_tile) {
    if (row_tiles_.empty()) row_tiles_.assign(warps_.size() * 32, block_);
    row_tiles_[static_cast<std::size_t>(thread)] = row_tile;
  }
  const Tally& tally() const { return tally_; }
  /// What is counted of an instruction; nullptr where nothing is.
  InstructionTally* tally_of(std::uint32_t instruction) {
    return tally_.empty() ? nullptr : &tally_[instruction];
  }
  /// What lanes of several blocks of the cluster did to the shared memory of this one; nullptr
  /// without a cluster or a checker.
  AreaShadow* cluster_shadow() { return cluster_shadow_ ? &*cluster_shadow_ : nullptr; }
  /// What the block did before is before what blocks of the cluster do that come to `what` later;
  /// `of_reads`: what it read alone.
  void meet_in_cluster(const void* what, bool of_reads = false);
  /// A thread has waited for a phase of an mbarrier of the block: who knows that knows that what
  /// other blocks had sent there does not read their memory any more.
  void acknowledge(const simt::MbarrierState& barrier);
  /// A lane of another block of the cluster arrives at an mbarrier of this one; `time`: of that
  /// block.
  void note_arrival_from(const simt::Party& lane, std::uint32_t time);
  /// The last of those that may come when this block has ended, if any may.
  std::optional<simt::Party> late_arrival() const;
  /// A thread has come to know what other blocks of the cluster did, which tells it of what this
  /// block has sent to them.
  void learn_what_arrived(int thread);
  /// A lane of it has come to a fence of the device's scope, or a wider one.
  bool fenced = false;
  std::uint32_t time = 0;  ///< BlockOrder
  /// A thread has waited for the grid before its own in the stream (griddepcontrol.wait).
  void wait_for_last_grid(int thread) {
    if (last_grid_ != 0) checker_->clocks().learn(thread, last_grid_, 1);
  }
  /// Whether all that the grid before did is before what the thread does next.
  bool is_after_last_grid(int thread) const {
    return last_grid_ == 0 || checker_->clocks().past(thread).holds(simt::epoch_of(last_grid_, 1));
  }
  /// Under the memory checker: reads of bytes that nobody wrote, whose values some register held;
  /// the first stands for registers that nothing was assigned to.
  std::vector<simt::Finding> unwritten_sources;
  /// For each byte of shared memory that such a value was stored to 1 + its source; else 0. Empty:
  /// none was.
  std::vector<std::uint32_t> unwritten_shared;

  /// Lanes of a warp arrive at a barrier, and count as `counted`; `expected`: 0 all lanes of the
  /// block. Where the barrier opens with them, what waited there is ready again, and the vote
  /// comes back.
  std::optional<Vote> arrive(Warp& warp, int id, Barrier::Arrival arrival, int counted,
                             int expected, int votes);
  /// Lanes of a warp have exited: barriers may be complete without them. `at_cluster_barrier`: of
  /// those how many had come to that.
  void note_exit(int at_cluster_barrier);
  /// The cluster's barrier: a lane comes to it, waits no longer, and what all do when it opens.
  void arrive_at_cluster(int thread);
  void leave_cluster_barrier(int thread);
  void open_cluster_barrier();
  [[noreturn]] void fail(const std::string& what, FaultKind kind = FaultKind::launch_failure);

  /// What the block has under way: Hopper's barriers, copies and products.
  simt::AsyncBlock& async();
  /// The line of an instruction, as long as the block is there.
  simt::Here line_of(std::uint32_t instruction);
  std::byte* shared_memory() const override { return shared_; }
  std::size_t shared_address() const override { return shared_begin; }
  /// Where its shared memory begins in the cluster's.
  std::uint64_t shared_base() const {
    return shared_begin + (static_cast<std::uint64_t>(rank_) << rank_shift);
  }
  std::string describe_shared(std::size_t offset) const override;
  simt::TensorCoreRule tensor_core() const override { return grid_.tensor_core; }
  bool by_compiler() const override { return program_.of_triton; }
  bool access_global(simt::BlockChecker::Access access, const std::byte* at, std::size_t bytes,
                     const simt::Caller& caller) override;
  void note_written(std::size_t offset, std::size_t bytes) override;
  bool follows_copies() const override { return grid_.history != nullptr; }
  void note_copied(const std::byte* to, const std::byte* from, std::size_t bytes, bool updates,
                   const simt::Caller& caller) override;
  void wake(int thread) override;
  [[noreturn]] void fail(const simt::Caller& caller, const std::string& what) override;

  /// Of the block that failed.
  FaultKind fault() const { return fault_; }

 private:
  Vote open(int id);
  /// Throws Fault where the arrival, which gets its epoch, could as well have come before the
  /// barrier opened last.
  void demand_order(Warp& warp, int id, Barrier::Arrival& arrival);
  int exited() const;
  void tally_opening(int id, const Barrier& barrier);
  std::string describe_split(const Split& split) const;
  std::string describe_absent(const Barrier& barrier) const;

  const Grid& grid_;
  const Program& program_;
  simt::Sitting& sitting_;
  GridOrder& order_of_grid_;
  Cluster& cluster_;
  const int rank_;
  NumbersMade numbers_;
  std::unordered_map<std::uint32_t, NumberMade> nans_;
  NumberOrigins origins_;
  Recording recording_;
  Tally tally_;
  std::optional<int> left_early_;  ///< lanes that had exited as the first barrier opened
  bool crossed_ = false;           ///< warps have waited in different instructions for one barrier
  std::optional<AreaShadow> cluster_shadow_;
  int last_grid_ = 0;  ///< the agent that the grid before is to the checker; 0: it has ended
  FaultKind fault_ = FaultKind::launch_failure;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::array<Barrier, 16> barriers_;
  /// By warp, where it came last to a barrier of some of the threads.
  std::vector<std::optional<std::uint32_t>> last_arrivals_;
  /// Under the memory checker: what came to each when it opened last.
  std::array<std::vector<Barrier::Arrival>, 16> opened_;
  /// What this block has sent, and a block that has waited for it: since which time of that.
  struct Acknowledgement {
    const simt::MbarrierState* full;
    std::uint32_t count;
    std::int64_t block;
    std::uint32_t time;
  };
  std::vector<Acknowledgement> acknowledgements_;
  struct RemoteArrival {
    simt::Party lane;
    std::uint32_t time;
  };
  std::map<std::int64_t, RemoteArrival> remote_arrivals_;  ///< the last one of each other block
  std::map<const simt::MbarrierState*, std::uint32_t> known_to_arrive_;  ///< how many of each
  simt::Carried cluster_arrivals_, cluster_completed_;  ///< of the cluster's barrier
  std::unique_ptr<std::byte[]> memory_;
  std::byte* shared_ = nullptr;
  std::size_t shared_bytes_;
  std::optional<simt::BlockChecker> checker_;
  std::unique_ptr<simt::AsyncBlock> async_;
  std::map<std::uint32_t, std::pair<std::string, unsigned>> lines_;  ///< by instruction
  std::uint64_t progress_ = 0;  ///< counts what may let lanes go on that wait
  std::uint64_t progress_told_ = 0;
  /// Of the warps that are ready those that run, with a schedule: in any order, as on a GPU. At
  /// times one of them comes to nothing for long, while others go on as far as they can without it.
  void mix(std::vector<Warp*>& ready);
  int round_ = 0, left_behind_ = 0;
  int rounds_in_vain_ = 0;
  std::mt19937_64 order_;
  double began_ = 0;  ///< in seconds of this thread's on a core: what others take is not its time
  std::int64_t block_ = 0;
  std::vector<std::int64_t> row_tiles_;  ///< by thread; empty: no marker said
  std::array<std::uint32_t, 3> coordinates_{};
};

}  // namespace lanescope::ptx

#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "debug/simt/async_block.h"
#include "debug/simt/block_checker.h"
#include "debug/simt/lane.h"
#include "debug/simt/last_words.h"
#include "debug/simt/machine.h"
#include "debug/simt/stack_pool.h"

namespace lanescope::simt {

/// What the last lane to arrive does for all: `slots[i]` is what lane i brought, null where lane i
/// is not in the mask. Returns an error text, empty where all is well.
using WarpOperation = std::string (*)(void* const (&slots)[32], std::uint32_t mask);

/// One lane of the running block.
struct Lane {
  struct Copy {
    void* to;
    const void* from;
    bool valid;
  };

  boost::context::fiber fiber;
  bool exited = false;
  bool unwindable = true;
  const void* stack_end = nullptr;
  /// What the lane waits in, e.g. "shfl_xor" (nullptr while it runs), where, and with whom.
  const char* waits_in = nullptr;
  Here here{};
  std::uint32_t mask = 0;
  const Waitable* waits_for = nullptr;    ///< what it waits for, where that is no other lanes' call
  std::vector<std::vector<Copy>> copies;  ///< groups of async copies, oldest first; last one open
};

/// Lanes of one warp on their way to the same call.
struct Meeting {
  Here here;
  std::uint32_t mask = 0;
  std::uint32_t arrived = 0;
  void* slots[32] = {};
};

/// One warp of the running block.
struct Warp {
  std::uint32_t exited = 0;       ///< lanes
  std::vector<Meeting> meetings;  ///< under way
};

/// Runs the blocks of a grid, one after the other, on the calling thread.
class BlockRunner final : public AsyncHost {
 public:
  /// Runs blocks of this launch on the thread that sits here.
  BlockRunner(const Launch& launch, Sitting& sitting, StackPools& stacks);
  ~BlockRunner();

  /// Throws Fault.
  void run(std::int64_t block, void (*kernel)(const void*), const void* arguments);

  /// The runner whose lane the calling code is; nullptr outside of kernels.
  static BlockRunner* current() { return current_; }

  int thread_index() const { return running_; }
  std::int64_t block_index() const { return block_; }
  std::int64_t block_count() const { return blocks_; }
  int next_ticket(int all) { return static_cast<int>((block_ + blocks_ * tickets_++) % all); }
  std::byte* shared_memory() const override { return shared_; }
  std::size_t shared_bytes() const override { return shared_bytes_; }
  std::size_t shared_address() const override { return 0; }
  std::string describe_shared(std::size_t offset) const override;
  /// What the block has under way.
  AsyncBlock& async();
  bool has_async() const { return async_ != nullptr; }
  /// The address behind the calling lane's stack.
  const void* stack_end() const { return stack_end_; }
  BlockChecker* checker() override { return checker_ ? &*checker_ : nullptr; }
  TensorCoreRule tensor_core() const override { return tensor_core_; }
  Lane& lane() { return lanes_[static_cast<std::size_t>(running_)]; }

  /// Suspends the calling lane until all lanes of the block that have not exited wait here.
  void meet_block(Here here);
  /// Suspends the calling lane until all lanes of `mask` wait here; the last does `operation`.
  void meet_warp(const char* name, WarpOperation operation, std::uint32_t mask, void* slot,
                 Here here);
  /// These lanes of the calling one's warp have given each other values.
  void note_exchange(std::uint32_t mask);
  /// Suspends the calling lane until `wake` names it.
  void park(const char* name, Here here, const Waitable* waits_for);
  void wake(int thread) override;
  bool access_global(BlockChecker::Access access, const std::byte* at, std::size_t bytes,
                     const Caller& caller) override {
    return !checker() || checker()->access(access, at, bytes, 1, caller.pc, caller.thread);
  }
  void note_written(std::size_t, std::size_t) override {}
  [[noreturn]] void fail(const Caller& caller, const std::string& what) override {
    fail(caller.name, caller.here, what);
  }
  /// Ends the block with an error: does not return.
  [[noreturn]] void fail(const char* name, Here here, const std::string& what);
  /// The same from within code that cannot be unwound: the lane's stack is lost.
  [[noreturn]] void fail_without_unwinding(const std::string& what);

 private:
  void run_lanes();
  void resume(int thread);
  void suspend();
  void exit_lane(int thread);
  void order_accesses(int warp, std::uint32_t mask);
  void open_barrier_if_complete();
  std::string describe_stuck() const;

  static constinit thread_local BlockRunner* current_;

  const std::int64_t blocks_;  ///< of the launch
  Sitting& sitting_;
  StackPools::Loan stacks_;  ///< outlives the lanes, whose stacks come back to it
  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  std::deque<int> ready_;  ///< threads that can go on, in their order
  std::unique_ptr<std::byte[]> memory_;
  std::byte* shared_ = nullptr;
  std::size_t shared_bytes_;
  bool (*shared_element_)(std::int64_t, const char**, int*, int*);
  std::unique_ptr<AsyncBlock> async_;
  std::optional<BlockChecker> checker_;
  std::uint64_t schedule_;
  TensorCoreRule tensor_core_;
  std::mt19937_64 order_;
  boost::context::fiber scheduler_;
  std::int64_t block_ = 0;
  std::int64_t tickets_ = 0;         ///< that it has had
  const void* stack_end_ = nullptr;  ///< of the running lane
  int running_ = 0;
  int at_barrier_ = 0;
  int exited_ = 0;
  std::string error_;
};

}  // namespace lanescope::simt

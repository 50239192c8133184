#pragma once

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "reference/site.h"

namespace lanescope::simt {

/// Fiber stacks, each above a guard page, used again from block to block.
class StackPool {
 public:
  /// Room for a lane's registers at no optimisation; pages are taken only when touched.
  static constexpr std::size_t stack_bytes = 256 * 1024;
  /// What the lanes of the kernels at hand use of it.
  static constexpr std::size_t poisoned_bytes = 16 * 1024;

  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// Its upper end is full of poison: what a kernel keeps there and never assigns is NaN in any
  /// type, whatever a block before left. Throws std::bad_alloc.
  boost::context::stack_context take();
  void give(boost::context::stack_context stack) { free_.push_back(stack); }

  /// Boost.Context's StackAllocator over a pool; says where the stack ends (it grows down).
  struct Allocator {
    StackPool* pool;
    const void** end;
    boost::context::stack_context allocate() {
      const auto stack = pool->take();
      *end = stack.sp;
      return stack;
    }
    void deallocate(boost::context::stack_context& stack) { pool->give(stack); }
  };

 private:
  void map_more();

  std::vector<void*> slabs_;
  std::vector<boost::context::stack_context> free_;
};

/// The pools that the launches of one thread use, a pool for each worker: stacks are mapped once,
/// as to unmap them interrupts all other workers.
class StackPools {
 public:
  /// A pool of one's own, until it goes.
  class Loan {
   public:
    explicit Loan(StackPools& pools) : pools_(pools), pool_(pools.take()) {}
    ~Loan() { pools_.give(std::move(pool_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    StackPool* get() { return pool_.get(); }

   private:
    StackPools& pools_;
    std::unique_ptr<StackPool> pool_;
  };

 private:
  std::unique_ptr<StackPool> take();
  void give(std::unique_ptr<StackPool> pool);

  std::mutex mutex_;
  std::vector<std::unique_ptr<StackPool>> free_;
};

}  // namespace lanescope::simt
